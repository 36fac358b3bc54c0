# The sink: Spark (PySpark's own jars), the jars of Delta, Kafka, Avro and S3, and `dblog-sink`, on a Java runtime without a compiler. Maven fetches the
# jars in a stage that is thrown away and their hashes are compared with locks/jars.txt: nothing is downloaded at a start. The sink's log store for
# S3 is compiled there. Driver and executors on Kubernetes run from this one image. Build secrets, all optional: `ca`, `apt`, `pip`, `maven` (see README.md).
ARG BASE_IMAGE=docker.io/library/python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${BASE_IMAGE} AS jars
COPY docker/images/inside/packages.sh docker/images/inside/trust.sh /build/inside/
# The certificates first: Java's own store is made from them when it is installed.
RUN --mount=type=secret,id=ca --mount=type=secret,id=apt /build/inside/packages.sh ca-certificates && /build/inside/trust.sh
RUN --mount=type=secret,id=ca --mount=type=secret,id=apt /build/inside/packages.sh maven openjdk-17-jdk-headless
COPY docker/stack /build/docker/stack
COPY spark-sink/java /build/spark-sink/java
COPY spark-sink/pyproject.toml /build/spark-sink/
COPY docker/images/inside/jars.py /build/inside/
RUN --mount=type=secret,id=maven,target=/root/.m2/settings.xml \
    PYTHONPATH=/build/docker DBLOG_CACHE=/build/cache python3 /build/inside/jars.py /build/jars /build/own
COPY docker/images/locks/jars.txt /build/locks/jars.txt
WORKDIR /build/jars
# These files and no others.
RUN sha256sum --check --strict --quiet /build/locks/jars.txt && sha256sum -- *.jar > /build/found.txt && cmp /build/found.txt /build/locks/jars.txt

FROM ${BASE_IMAGE} AS builder
COPY docker/images/inside/packages.sh docker/images/inside/trust.sh /build/inside/
RUN --mount=type=secret,id=ca --mount=type=secret,id=apt \
    /build/inside/packages.sh --python-build ca-certificates && /build/inside/trust.sh
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
RUN python3 -m venv /build/tools && python3 -m venv --without-pip /opt/dblog
COPY docker/images/locks/build.txt docker/images/locks/sink.txt /build/locks/
# PySpark comes as a source archive; its wheel is packed here, by tools that are locked too, and not compressed, for it is unpacked at once.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/tools/bin/pip install --quiet --require-hashes --only-binary :all: -r /build/locks/build.txt && \
    /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --require-hashes --wheel-dir /build/wheels \
        --config-settings=--build-option=--compression=stored -r /build/locks/sink.txt
COPY docker/images/inside/finish.sh /build/inside/
COPY spark-sink /build/spark-sink
# Below what takes minutes: it changes with every commit.
ARG SOURCE_DATE_EPOCH=0
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir /build/wheels /build/spark-sink && \
    /build/tools/bin/pip --python /opt/dblog/bin/python install --quiet --no-compile --no-index --no-deps /build/wheels/*.whl && \
    rm -rf /opt/dblog/lib/python3*/site-packages/pyspark/examples /opt/dblog/lib/python3*/site-packages/pyspark/data && \
    /build/inside/finish.sh /opt/dblog
COPY --from=jars /build/jars /build/own /opt/dblog/share/dblog-sink/jars/
COPY docker/images/inside/spark-defaults.conf docker/images/inside/defaults.yaml docker/images/inside/sink_entrypoint.py docker/images/inside/sbom.py \
    /build/inside/
RUN /opt/dblog/bin/python -c 'import sys, pathlib; from dblog_sink.job import submit; submit.archive(pathlib.Path(sys.prefix) / "share" / "dblog-sink")' && \
    mkdir -p /opt/dblog/share/spark-conf && cp /build/inside/spark-defaults.conf /opt/dblog/share/spark-conf/ && \
    cp /build/inside/defaults.yaml /opt/dblog/share/dblog-sink/ && \
    install -m 755 /build/inside/sink_entrypoint.py /opt/dblog/bin/sink-entrypoint && \
    /opt/dblog/bin/python /build/inside/sbom.py --name dblog-sink --of dblog-sink --out /opt/dblog/share/sbom

FROM ${BASE_IMAGE}
# libnss-wrapper: Java's login wants a name for the number it runs as, and a number that a platform chose has none in a read-only /etc/passwd.
RUN --mount=type=bind,source=docker/images/inside,target=/run/inside --mount=type=secret,id=ca --mount=type=secret,id=apt \
    /run/inside/packages.sh tini libnss-wrapper openjdk-17-jre-headless && /run/inside/account.sh
COPY --from=builder /opt/dblog /opt/dblog
# HOME: any number may run this image, and of a read-only root file system /tmp alone can be written. Spark keeps jars of spark.jars.packages there.
ENV PATH=/opt/dblog/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1 SPARK_CONF_DIR=/opt/dblog/share/spark-conf \
    PYSPARK_PYTHON=/opt/dblog/bin/python
ARG BASE_IMAGE
ARG BASE_DIGEST=
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="dblog-sink" \
      org.opencontainers.image.description="Change topics of Kafka into Delta tables, by one Structured Streaming query" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
USER 10001:0
WORKDIR /tmp
HEALTHCHECK --interval=30s --timeout=10s --start-period=180s --retries=3 CMD ["sink-entrypoint", "health"]
ENTRYPOINT ["/usr/bin/tini", "--", "sink-entrypoint"]
CMD ["submit", "--config", "/etc/dblog/sink.yaml"]
