#!/usr/bin/env bash
# The interoperability tests; see README.md. Arguments go to go test.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${INTEROP_TARGET:-}" ] && [ -z "${BARNABAS_BIN:-}" ]; then
	mkdir -p bin
	go build -o bin/barnabas ./cmd/barnabas
fi
exec go test -tags interop -count=1 -timeout "${INTEROP_TIMEOUT:-60m}" -v "$@" ./interop
