#!/bin/sh
# Wrapper of the compiler for release/build.sh: cargo-auditable adds the list of dependencies to the program. `cargo auditable` would make
# itself the wrapper for all crates of the workspace (RUSTC_WORKSPACE_WRAPPER). Cargo derives the names of functions from the path of that
# wrapper, so release/profile.xz would not match, and builds at different paths would differ.
if [ "${CARGO_BIN_NAME:-}" = sealgate ]; then
    # cargo-auditable runs Cargo itself.
    unset RUSTC_WRAPPER
    exec cargo-auditable "$@"
fi
exec "$@"
