# Sourced by tests/*/run.sh in the root directory: a provider in its own directory, which is stopped and
# removed when the script ends.

# begin NAME: creates a directory $work with a token.
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
        # Repeat the failures at the end, in case the output is truncated.
        [ ! -s "$work/faults" ] || { echo "--- faults"; cat "$work/faults"; }
    fi
    rm -rf "$work"
    exit "$status"
}

# configure PORT ADMIN_PORT [SERVER_LINE…]: writes the common sections of a configuration and appends standard
# input.
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

# python_environment NAME REQUIREMENTS: installs Python packages into target/NAME-venv and sets $venv.
python_environment() {
    /usr/bin/python3 -c 'import ensurepip' || { echo "python3-venv is missing: install it" >&2; exit 1; }
    venv=$PWD/target/$1-venv
    cmp -s "$2" "$venv/installed" && return
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    cp "$2" "$venv/installed"
}
