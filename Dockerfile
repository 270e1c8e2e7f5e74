# Builds inside a Rust image, where one can be pulled: `docker compose up --build`.
# Without a registry use ./scripts/compose, which builds here and packs the result with Dockerfile.local.
# Both give the same image: one program, which is `node` or `ctl` by the name it is called by, its libraries and two configs.

FROM rust:1-slim AS build
WORKDIR /src
COPY . .
RUN cargo build --profile small --locked -p ctl --bin conclave --no-default-features
# Everything of the image, gathered under /image.
RUN mkdir -p /image/usr/local/bin /image/etc/conclave /image/data /image/tmp \
 && chmod 1777 /image/data /image/tmp \
 && cp target/small/conclave /image/usr/local/bin/ \
 && strip /image/usr/local/bin/conclave \
 && ln -s conclave /image/usr/local/bin/node && ln -s conclave /image/usr/local/bin/ctl \
 && cp config/compose.toml config/compose-quorum.toml /image/etc/conclave/ \
 && echo 'hosts: files dns' > /image/etc/nsswitch.conf \
 && echo 'root:x:0:0:root:/:/bin/false' > /image/etc/passwd \
 && ldd target/small/conclave | grep -o '/[^ ]*\.so[^ ]*' | sort -u \
    | while read -r library; do cp -L --parents "$library" /image; done

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin CONCLAVE_CONFIG=/etc/conclave/compose.toml CONCLAVE_DATA_DIR=/data
EXPOSE 7400 8400
VOLUME /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/node"]
