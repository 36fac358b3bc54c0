# The worker: `dblog` in a virtual environment of hash-locked wheels, its extension compiled in a stage that is thrown away. Nothing here
# names a processor: the same file builds on each. What a builder behind a proxy or a private registry needs comes as build secrets, all
# optional: `ca`, `apt`, `pip` (see README.md).
ARG BASE_IMAGE=docker.io/library/python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${BASE_IMAGE} AS builder
COPY docker/images/inside/packages.sh docker/images/inside/trust.sh /build/inside/
RUN --mount=type=secret,id=ca --mount=type=secret,id=apt \
    /build/inside/packages.sh --python-build gcc libc6-dev ca-certificates && /build/inside/trust.sh
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
# Two environments: one that builds, and one without pip that becomes /opt/dblog of the image.
RUN python3 -m venv /build/tools && python3 -m venv --without-pip /opt/dblog
COPY docker/images/locks/build.txt docker/images/locks/worker.txt /build/locks/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/tools/bin/pip install --quiet --require-hashes --only-binary :all: -r /build/locks/build.txt && \
    /build/tools/bin/pip --python /opt/dblog/bin/python install --quiet --no-compile --require-hashes --only-binary :all: -r /build/locks/worker.txt
COPY docker/images/inside/finish.sh /build/inside/
COPY connect-worker /build/connect-worker
ARG SOURCE_DATE_EPOCH=0
# -g0: paths and line numbers of this stage do not go into the extension, which is the same wherever it is built.
RUN CFLAGS=-g0 /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir /build/wheels /build/connect-worker && \
    /build/tools/bin/pip --python /opt/dblog/bin/python install --quiet --no-compile --no-index --no-deps /build/wheels/*.whl && \
    /build/inside/finish.sh /opt/dblog
COPY docker/images/inside/sbom.py /build/inside/sbom.py
RUN /opt/dblog/bin/python /build/inside/sbom.py --name dblog-worker --of dblog --out /opt/dblog/share/sbom

FROM ${BASE_IMAGE}
RUN --mount=type=bind,source=docker/images/inside,target=/run/inside --mount=type=secret,id=ca --mount=type=secret,id=apt \
    /run/inside/packages.sh tini && /run/inside/account.sh
COPY --from=builder /opt/dblog /opt/dblog
# The shop that the chart's demo writes to, and the question whether source and lake are the same.
COPY docker/demo/__init__.py docker/demo/connection.py docker/demo/everything.py docker/demo/identical.py docker/demo/kinds.py docker/demo/load.py \
    docker/demo/shop.py docker/demo/shopkeeper.py docker/demo/statements.py /opt/dblog/share/demo/demo/
COPY docker/demo/postgres/__init__.py docker/demo/postgres/everything.py docker/demo/postgres/shop.py /opt/dblog/share/demo/demo/postgres/
# HOME: any number may run this image, and of a read-only root file system /tmp alone can be written. The worker looks for nothing in it.
ENV PATH=/opt/dblog/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1
ARG BASE_IMAGE
ARG BASE_DIGEST=
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="dblog-worker" \
      org.opencontainers.image.description="Change data capture from MySQL, MariaDB and PostgreSQL into Kafka, by Kafka Connect's interface" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
# A number, so that Kubernetes sees that it is not root. Any other number works too.
USER 10001:0
WORKDIR /tmp
EXPOSE 8083
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["dblog", "health"]
ENTRYPOINT ["/usr/bin/tini", "--", "dblog"]
CMD ["worker", "/etc/dblog/worker.properties"]
