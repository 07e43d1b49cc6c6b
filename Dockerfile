FROM python:3.12-slim
RUN useradd --create-home rowlease
COPY . /src
RUN pip install --no-cache-dir /src && rm -rf /src
USER rowlease
ENTRYPOINT ["rowlease"]
