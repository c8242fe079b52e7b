#!/usr/bin/env bash
# The interoperability tests; see README.md. Arguments go to go test. What was
# skipped, and why, is said again at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${INTEROP_TARGET:-}" ] && [ -z "${BARNABAS_BIN:-}" ]; then
	mkdir -p bin
	go build -o bin/barnabas ./cmd/barnabas
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
go test -tags interop -count=1 -timeout "${INTEROP_TIMEOUT:-60m}" -v "$@" ./interop | tee "$log" || status=$?
if grep -q '^ *--- SKIP' "$log"; then
	echo "skipped:"
	grep -E '^ *--- SKIP|: this test needs it$' "$log"
fi
exit "$status"
