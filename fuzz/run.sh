#!/usr/bin/env bash
# Builds the fuzz targets and runs each for FUZZ_SECONDS (default 10): fuzz/run.sh [TARGET…]
# The target cost measures a running server: PROGRAM, by default the debug build.
# Needs stable Rust and a C++ compiler: the coverage flags are LLVM's, and the crate libfuzzer-sys
# contains libFuzzer.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${FUZZ_SECONDS:-10}
host=$(rustc -vV | sed -n 's/^host: //p')

# The flags of cargo-fuzz without the address sanitizer, which needs nightly Rust. The code under test has
# no unsafe block.
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0
    -Ccodegen-units=1 --cfg=fuzzing)
# With --target the flags do not apply to build scripts, which are not linked with libFuzzer.
RUSTFLAGS="${flags[*]}" "${CARGO:-cargo}" build --locked --quiet --release --bins --target "$host" --target-dir target

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
    targets+=(cost)
fi
failed=()
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    if [ "$target" = cost ]; then
        if [ -z "${PROGRAM:-}" ]; then
            (cd .. && "${CARGO:-cargo}" build --locked --quiet --bin sealgate)
            PROGRAM=${CARGO_TARGET_DIR:-$(cd .. && pwd)/target}/debug/sealgate
        fi
        if ! FUZZ_SECONDS=$seconds PROGRAM=$PROGRAM node cost/run.mjs >"artifacts/$target/log" 2>&1; then
            echo "$target: FOUND"
            failed+=("$target")
        fi
        cat "artifacts/$target/log"
        continue
    fi
    corpora=("corpus/$target")
    [ ! -d "seeds/$target" ] || corpora+=("seeds/$target")
    log="artifacts/$target/log"
    if "target/$host/release/$target" "${corpora[@]}" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 \
        -max_len=4096 -dict=words.dict -artifact_prefix="artifacts/$target/" >"$log" 2>&1; then
        sed -n 's/^Done \([0-9]*\) runs.*/'"$target"': \1 runs, nothing found/p' "$log"
    else
        echo "$target: FOUND"
        tail -n 30 "$log"
        failed+=("$target")
    fi
done
echo "$((${#targets[@]} - ${#failed[@]})) passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
