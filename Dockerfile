# syntax=docker/dockerfile:1
# One image for every role and for `ferrite up`: `docker build --tag ferrite .`, or `make image`.
#
#   docker run --read-only --volume ferrite:/data --publish 3000:3000 --publish 2222:2222 ferrite
#
# Writes only to /data. `--target symbols --output FOLDER` exports the debug symbols of the same
# build.

ARG RUST_IMAGE=rust:1.95.0-trixie
ARG DEBIAN_IMAGE=debian:13.2-slim

# The manifests with empty sources. They change only with the dependencies, so Docker caches the
# layer that builds those.
FROM ${RUST_IMAGE} AS manifests
WORKDIR /source
COPY . .
RUN deploy/image/manifests.sh /manifests

FROM ${RUST_IMAGE} AS build
WORKDIR /build
COPY --from=manifests /manifests ./
# For our own crates; dependencies have none.
ENV CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
RUN cargo build --release --locked --bin ferrite
COPY . .
# Shown by the metric `ferrite_build_info`.
ARG REVISION=unknown
# Makes the sources newer than the build of the empty ones.
RUN find . -path ./target -prune -o -type f -exec touch {} + \
    && FERRITE_COMMIT="${REVISION}" cargo build --release --locked --bin ferrite \
    && deploy/dist.sh target/release/ferrite target/dist

FROM scratch AS symbols
COPY --from=build /build/target/dist/ferrite.debug /

FROM ${DEBIAN_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/* \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build --chmod=0755 /build/target/dist/ferrite /usr/bin/ferrite
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/ferrite/

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Ferrite" \
      org.opencontainers.image.description="A self-hosted git hosting service: REST v1, git over HTTP and SSH, one binary" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

ENV FERRITE_DATA=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 3000 2222
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["ferrite", "health"]
ENTRYPOINT ["ferrite"]
CMD ["up", "--http", "0.0.0.0:3000", "--ssh", "0.0.0.0:2222"]
