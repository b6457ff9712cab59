#!/usr/bin/env bash
# make profile: records how often each branch of the program is taken under load, in release/profile.xz, and what these counts depend on,
# in release/profile.txt. release/program.sh uses them.
set -euo pipefail
cd "$(dirname "$0")/.."
.ci/install bench
host=$(rustc --version --verbose | sed -n 's/^host: //p')
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
[ -x "$tools/llvm-profdata" ] || rustup component add llvm-tools
unset RUSTC_WORKSPACE_WRAPPER

echo "building a program that counts; this takes 5 to 15 minutes"
# The compiler adds the counters before it optimizes across crates, so that step, which takes 20 minutes, is not needed. These options
# override it, because a change of Cargo's profile would change the names of the functions.
# The program ends without exit handlers, so the counters are in a mapped file (%c). This needs the last two options. The last one omits
# the values of arguments, which cannot be recorded in that way.
RUSTFLAGS="-Cprofile-generate -Clto=off -Clinker-plugin-lto=no -Cllvm-args=-runtime-counter-relocation -Cllvm-args=-disable-vp" \
    ${CARGO:-cargo} build --locked --profile dist --bin sealgate --target "$host" --target-dir target/counting
${CARGO:-cargo} build --locked --example h2_load
counts=target/counting/counts
rm -rf "$counts"
mkdir -p "$counts"
LLVM_PROFILE_FILE=$PWD/$counts/%p%c.profraw PROGRAM=$PWD/target/counting/$host/dist/sealgate \
    H2_LOAD=$PWD/target/debug/examples/h2_load node release/profile.mjs
"$tools/llvm-profdata" merge --sparse --output "$counts/all.profdata" "$counts"/*.profraw
xz --force -9e --stdout "$counts/all.profdata" >release/profile.xz
release/program.sh --state >release/profile.txt
ls -l release/profile.xz
