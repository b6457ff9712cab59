#!/usr/bin/env bash
# make deb: builds target/debian/sealgate_VERSION_ARCHITECTURE.deb, from the packaged program or from the
# binary in the argument.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:-target/optimized/sealgate}
if [ $# -eq 0 ]; then
    echo "building the packaged binary; this takes 5 to 20 minutes the first time"
    release/program.sh
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
packaged=$(dpkg-parsechangelog --show-field Version)
if [ "$version" != "$packaged" ]; then
    echo "Cargo.toml has version $version and debian/changelog $packaged" >&2
    exit 1
fi

packages=$PWD/target/debian
documents=$PWD/target/documents
rm -rf "$documents"
mkdir -p "$packages"
rm -f "$packages"/sealgate_*.deb
"$binary" documents --to "$documents" >/dev/null
SEALGATE_BINARY=$binary SEALGATE_DOCUMENTS=$documents SEALGATE_PACKAGES=$packages debian/rules clean binary >"$packages/build.log" 2>&1 || {
    tail -n 30 "$packages/build.log" >&2
    exit 1
}
ls "$packages"/sealgate_*.deb
