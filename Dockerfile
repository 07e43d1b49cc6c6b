# An image of rowlease; put your tasks on top of it (FROM rowlease, COPY app.py /app/), or mount them at /app.
#
# The tag of the base image moves with its security updates. Pin its digest when you build for production:
#   docker buildx imagetools inspect python:3.12-slim
#   docker build --build-arg BASE=python:3.12-slim@sha256:... .
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ARG EXTRAS=dashboard,metrics,sqlserver
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY sql /src/sql
COPY migrations /src/migrations
RUN python -m venv /opt/rowlease && /opt/rowlease/bin/pip install --no-cache-dir "/src[${EXTRAS}]"

FROM ${BASE}
# SQL Server is reached through ODBC: its driver manager, and Kerberos for Microsoft's driver.
RUN apt-get update && apt-get install --yes --no-install-recommends unixodbc libgssapi-krb5-2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/rowlease /opt/rowlease
ENV PATH=/opt/rowlease/bin:$PATH
WORKDIR /app
# A number, so that Kubernetes can see that it is not root. Nothing in the image belongs to it.
USER 10001:10001
ENTRYPOINT ["rowlease"]
