# An image of nothing but the binary. Build:
#   docker build --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse --short=12 HEAD) -t barnabas .
# Run, for clients on this machine:
#   docker run -d --name barnabas -p 127.0.0.1:9092:9092 -v barnabas:/data barnabas
# docs/operations.md says how other containers and machines reach it.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
ARG TARGETOS
ARG TARGETARCH
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION COMMIT=$COMMIT && mkdir /data

FROM scratch
COPY --from=build /src/bin/barnabas /barnabas
COPY --from=build /src/LICENSE /src/NOTICE /
COPY --from=build --chown=65532:65532 /data /data
# Loopback would be the container's own: so it listens on every interface in
# there, and advertises what -p 9092:9092 publishes.
ENV BARNABAS_LISTENERS=PLAINTEXT://0.0.0.0:9092
ENV BARNABAS_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
ENV BARNABAS_ADMIN_LISTENER=0.0.0.0:9644
ENV BARNABAS_LOG_DIRS=/data
USER 65532:65532
VOLUME /data
EXPOSE 9092 9644
HEALTHCHECK --interval=10s --timeout=5s --start-period=5m CMD ["/barnabas", "healthcheck"]
ENTRYPOINT ["/barnabas"]
CMD ["serve"]
