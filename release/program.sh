#!/usr/bin/env bash
# Builds the packaged program, target/optimized/sealgate: the profile dist, optimized with the counts in release/profile.xz.
#
# The counts say how often each branch of the program was taken under load. `make profile` records them. The compiler finds them by the
# names of functions, which change with the compiler and with the dependencies. So this script warns if they were recorded with others.
#
#   release/program.sh           builds the program
#   release/program.sh --check   ends with 1 and the reason if the counts were recorded with another compiler or other dependencies
#   release/program.sh --state   prints what the counts depend on
set -euo pipefail
cd "$(dirname "$0")/.."

state() {
    rustc --version
    echo "Cargo.lock $(sha256sum Cargo.lock | cut -c 1-64)"
}

check() {
    local changed
    changed=$(diff release/profile.txt <(state) | sed -n 's/^> //p' || true)
    [ -z "$changed" ] && return
    echo "release/profile.xz was recorded with another compiler or other dependencies, so the program is slower than it could be." >&2
    echo "'make profile' records it again in 10 to 20 minutes. Changed: $changed" >&2
    return 1
}

case "${1:-}" in
    --state) state; exit ;;
    --check) check; exit ;;
esac
check || true
# A wrapper would change the names of functions.
unset RUSTC_WORKSPACE_WRAPPER
# Cargo builds everything again if the name or the time of this file changes.
counts=$PWD/target/optimized/$(sha256sum release/profile.xz | cut -c 1-16).profdata
mkdir -p target/optimized
if [ ! -e "$counts" ]; then
    xz --decompress --stdout release/profile.xz >"$counts.new"
    mv "$counts.new" "$counts"
fi
host=$(rustc --version --verbose | sed -n 's/^host: //p')
# Without the second option, the compiler would warn that the counts have no values of arguments (release/profile.sh).
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$counts -Cllvm-args=-disable-vp" \
    ${CARGO:-cargo} build --locked --profile dist --bin sealgate --target "$host" --target-dir target/optimized
ln -f "target/optimized/$host/dist/sealgate" target/optimized/sealgate
