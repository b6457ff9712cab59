#!/usr/bin/env bash
# Relying parties that we did not write, unchanged, against the real program: each signs in, refreshes where it can, and
# logs out. Each folder here holds one, with an executable `run` that gets the provider and its clients in variables.
#
#   tests/clients/run.sh [NAME…]
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077
tests/clients/need.sh node npm curl openssl softhsm2-util

cargo build --quiet --bin sealgate
mkdir -p target
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

# All at once, so that no two are the same.
read -r port admin rp < <(node -e '
    const { createServer } = require("net");
    const servers = [1, 2, 3].map(() => createServer().listen(0, "127.0.0.1"));
    Promise.all(servers.map((server) => new Promise((done) => server.once("listening", done)))).then(() => {
        console.log(servers.map((server) => server.address().port).join(" "));
        for (const server of servers) server.close();
    });')

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

# What a relying party gets. The address SIGNED_OUT_PAGE is for those that protect everything else.
export ISSUER="http://localhost:$port" RP_PORT="$rp"
export REDIRECT_URI="http://localhost:$rp/callback" SIGNED_OUT_URI="http://localhost:$rp/"
export SIGNED_OUT_PAGE="http://localhost:$rp/signed-out"
export CLIENT_ID=web PUBLIC_CLIENT_ID=native
export EMAIL=anna@example.test PASSWORD="correct horse battery staple" NAME="Anna Şahin"
sealgate() { target/debug/sealgate "$@" --config "$work/sealgate.toml"; }
sealgate key generate >/dev/null
sealgate user add --email "$EMAIL" --name "$NAME" --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
# oauth2-proxy has a fixed path of its own.
uris=(--redirect-uri "$REDIRECT_URI" --redirect-uri "http://localhost:$rp/oauth2/callback"
    --post-logout-redirect-uri "$SIGNED_OUT_URI" --post-logout-redirect-uri "$SIGNED_OUT_PAGE")
CLIENT_SECRET=$(sealgate client add --id "$CLIENT_ID" --name Web --type confidential "${uris[@]}" --json \
    | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
[ -n "$CLIENT_SECRET" ] || { echo "no client secret was printed" >&2; exit 1; }
export CLIENT_SECRET
sealgate client add --id "$PUBLIC_CLIENT_ID" --name Native --type public "${uris[@]}" >/dev/null

target/debug/sealgate serve --config "$work/sealgate.toml" >"$work/log" 2>&1 &
pids+=($!)
ready() { curl -sf --max-time 5 "http://127.0.0.1:$admin/readyz" >/dev/null; }
for _ in $(seq 300); do
    ready && break
    kill -0 "${pids[0]}" || { echo "the provider ended"; exit 1; }
    sleep 0.1
done
ready || { echo "the provider is not ready after 30 s"; exit 1; }

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for run in tests/clients/*/run; do names+=("$(basename "$(dirname "$run")")"); done
fi
for name in "${names[@]}"; do
    echo "== $name"
    mkdir "$work/$name"
    started=$SECONDS
    # A relying party's files go to a folder of its own; a hang must not hold the build.
    STATE="$work/$name" timeout --kill-after 10 240 "tests/clients/$name/run" \
        || { echo "$name failed (exit code $?; 124 means that it took longer than 240 s)"; exit 1; }
    echo "ok $name in $((SECONDS - started)) s"
done
echo "${#names[@]} passed, 0 failed"
