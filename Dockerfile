FROM python:3.12-slim
# SQL Server is reached through ODBC: its driver manager, and Kerberos for Microsoft's driver.
RUN apt-get update && apt-get install --yes --no-install-recommends unixodbc libgssapi-krb5-2 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home rowlease
COPY . /src
RUN pip install --no-cache-dir '/src[sqlserver]' && rm -rf /src
USER rowlease
ENTRYPOINT ["rowlease"]
