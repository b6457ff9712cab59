#!/usr/bin/env bash
# Builds Traefik from its module into target/tools, if it is not there: no package has it, and a build takes two to ten minutes of
# two cores and 5 GB of disk. Prints the program's path.
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
    # Its dashboard is built elsewhere, and not a part of the module.
    mkdir -p "$source/webui/static"
    echo '<!doctype html>' >"$source/webui/static/index.html"
    (cd "$source" && go build -o "$program" ./cmd/traefik) >&2
fi
echo "$program"
