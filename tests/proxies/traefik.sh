#!/usr/bin/env bash
# Builds Traefik from its Go module into target/tools unless it exists, because Debian has no package. The
# build takes two to ten minutes on two cores and 5 GB of disk. Prints the program's path.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=v3.5.0
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
program=$tools/traefik-$version
if [ ! -x "$program" ]; then
    command -v go >/dev/null || { echo "the Go toolchain is needed to build Traefik" >&2; exit 1; }
    module=$(go mod download -json "github.com/traefik/traefik/v3@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    mkdir -p "$tools"
    source=$(mktemp -d "$tools/traefik.XXXXXX")
    trap 'chmod -R u+w "$source"; rm -rf "$source"' EXIT
    cp -r "$module/." "$source"
    chmod -R u+w "$source"
    # The module does not contain the built dashboard.
    mkdir -p "$source/webui/static"
    echo '<!doctype html>' >"$source/webui/static/index.html"
    (cd "$source" && go build -o "$program" ./cmd/traefik) >&2
fi
echo "$program"
