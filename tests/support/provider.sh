# Sourced by tests/*/run.sh at the root: a provider in a directory of its own, which ends and is swept away with the script.

# begin NAME: a directory in $work, and a token in it.
begin() {
    mkdir -p target
    work=$(mktemp -d "$PWD/target/$1.XXXXXX")
    pids=()
    trap end EXIT
    hsm/init-token.sh "$work/hsm" sealgate >/dev/null
    export SOFTHSM2_CONF="$work/hsm/softhsm2.conf"
}

end() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    if [ "$status" != 0 ]; then
        echo "--- log of the provider"
        tail -n 50 "$work/log" 2>/dev/null || true
        # Once more, at the end, where a truncated output still has it.
        [ ! -s "$work/faults" ] || { echo "--- faults"; cat "$work/faults"; }
    fi
    rm -rf "$work"
    exit "$status"
}

# configure PORT ADMIN_PORT [SERVER_LINE…]: what every configuration begins with; standard input is what follows.
configure() {
    admin=$2
    cat - /dev/fd/3 3<&0 >"$work/sealgate.toml" <<END
issuer = "http://localhost:$1"
[server]
listen = ["127.0.0.1:$1"]
$(printf '%s\n' "${@:3}")
[admin]
listen = "127.0.0.1:$admin"
socket = "$work/admin.sock"
[hsm]
module = "/usr/lib/softhsm/libsofthsm2.so"
token_label = "sealgate"
pin_file = "$work/hsm/pin"
[store]
path = "$work/store"
END
}

sealgate() { target/debug/sealgate "$@" --config "$work/sealgate.toml"; }

# serve: starts the provider and waits until it is ready.
serve() {
    target/debug/sealgate serve --config "$work/sealgate.toml" >"$work/log" 2>&1 &
    provider=$!
    pids+=("$provider")
    for _ in $(seq 300); do
        curl -sf --max-time 5 "http://127.0.0.1:$admin/readyz" >/dev/null && return
        kill -0 "$provider" 2>/dev/null || { echo "the provider ended"; exit 1; }
        sleep 0.1
    done
    echo "the provider is not ready after 30 s"
    exit 1
}
