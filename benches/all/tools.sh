#!/usr/bin/env bash
# Installs programs without a Debian package into target/tools: Envoy, and oha (MIT), a load generator
# with a constant rate.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/target/tools
[ -z "${CARGO_TARGET_DIR:-}" ] || tools=$CARGO_TARGET_DIR/tools
mkdir -p "$tools/bin"
tests/proxies/envoy.sh >/dev/null
oha=1.16.0
if [ "$("$tools/bin/oha" --version 2>/dev/null)" != "oha $oha" ]; then
    ${CARGO:-cargo} install -q --locked --version "$oha" --root "$tools" oha
fi
