#!/usr/bin/env bash
# Relying parties that we did not write, unchanged, against the real program: each signs in, refreshes where it can, and
# logs out. Each folder here holds one, with an executable `run` that gets the provider and its clients in variables.
#
#   tests/clients/run.sh [NAME…]
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077

cargo build --quiet --bin sealgate --example legacy
sealgate=target/debug/sealgate
work=$(mktemp -d "$PWD/target/clients.XXXXXX")
pids=()
stop() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    [ "$status" = 0 ] || { echo "--- log of the provider"; tail -n 50 "$work/log" 2>/dev/null || true; }
    rm -rf "$work"
    exit "$status"
}
trap stop EXIT

free_port() { node -e 's=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
port=$(free_port)
admin=$(free_port)
rp=$(free_port)

hsm/init-token.sh "$work/hsm" sealgate >/dev/null
export SOFTHSM2_CONF="$work/hsm/softhsm2.conf"
cat >"$work/sealgate.toml" <<END
issuer = "http://localhost:$port"
[server]
listen = ["127.0.0.1:$port"]
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

export ISSUER="http://localhost:$port" RP_PORT="$rp"
export REDIRECT_URI="http://localhost:$rp/callback" SIGNED_OUT_URI="http://localhost:$rp/"
export CLIENT_ID=web PUBLIC_CLIENT_ID=native
export EMAIL=anna@example.test PASSWORD="correct horse battery staple"
command() { "$sealgate" "$@" --config "$work/sealgate.toml"; }
command key generate >/dev/null
command user add --email "$EMAIL" --name "Anna Şahin" --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
uris=(--redirect-uri "$REDIRECT_URI" --post-logout-redirect-uri "$SIGNED_OUT_URI")
CLIENT_SECRET=$(command client add --id "$CLIENT_ID" --name Web --type confidential "${uris[@]}" --json \
    | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
export CLIENT_SECRET
command client add --id "$PUBLIC_CLIENT_ID" --name Native --type public "${uris[@]}" >/dev/null

command serve >"$work/log" 2>&1 &
pids+=($!)
for _ in $(seq 300); do
    curl -sf "http://127.0.0.1:$admin/readyz" >/dev/null && break
    kill -0 "${pids[0]}" || { echo "the provider ended"; exit 1; }
    sleep 0.1
done

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for run in tests/clients/*/run; do names+=("$(basename "$(dirname "$run")")"); done
fi
for name in "${names[@]}"; do
    echo "== $name"
    "tests/clients/$name/run"
done
echo "${#names[@]} passed, 0 failed"
