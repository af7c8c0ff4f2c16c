# docker build -t emqproxy .                         (docker, podman, buildah; HEALTHCHECK needs buildah's --format docker)
#   --build-arg BASE=…                               any image with Python 3.11 or newer and its venv
#   --secret id=pip.conf,src=$HOME/.config/pip/pip.conf    where packages come from an index of your own
# docker run --read-only --cap-drop ALL -e EMQPROXY_UPSTREAM=redis://redis:6379 -p 127.0.0.1:6380:6380 emqproxy
ARG BASE=python:3.13-slim

FROM ${BASE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
# What is installed is what was locked, hash by hash; nothing is built from source but emqproxy.
COPY requirements.lock pyproject.toml config/image/cut_lock.py ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python3 -m venv /opt/build \
    && python3 -m venv --without-pip /opt/emqproxy \
    && python3 cut_lock.py requirements.lock hatchling > build.lock \
    && python3 cut_lock.py requirements.lock > run.lock \
    && /opt/build/bin/pip install --quiet --require-hashes --no-deps --only-binary :all: -r build.lock \
    && /opt/build/bin/pip --python /opt/emqproxy/bin/python install --quiet --no-compile \
       --require-hashes --no-deps --only-binary :all: -r run.lock
COPY README.md LICENSE ./
COPY lua lua
COPY emqproxy emqproxy
# The root is read-only, so bytecode is made here, and is never compared with a time that a layer may change.
RUN /opt/build/bin/pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/emqproxy/bin/python install --quiet --no-compile --no-index --no-deps dist/*.whl \
    && /opt/emqproxy/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/emqproxy/lib

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="emqproxy" \
      org.opencontainers.image.description="A Redis proxy that keeps an account of every job lock of BullMQ-style queues" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=builder /opt/emqproxy /opt/emqproxy
# Ports are of no use on a container's own loopback. In a pod, say --listen=127.0.0.1:6380.
ENV PATH=/opt/emqproxy/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    EMQPROXY_LISTEN=tcp://0.0.0.0:6380 \
    EMQPROXY_HEALTH=0.0.0.0:9464 \
    EMQPROXY_OBSERVER__ADMIN=0.0.0.0:9465 \
    EMQPROXY_UPSTREAM=redis://redis:6379
USER 65532:65532
EXPOSE 6380 9464 9465
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s --retries=3 CMD ["emqproxy", "healthcheck"]
ENTRYPOINT ["emqproxy"]
CMD ["run"]
