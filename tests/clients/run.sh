#!/usr/bin/env bash
# Tests unmodified third-party relying parties against the real program: each signs in, refreshes if it
# can, and logs out. Each folder contains one, with an executable `run` that receives the provider's and
# the clients' data in environment variables.
#
#   tests/clients/run.sh [NAME…]
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077
tests/clients/need.sh node npm curl openssl softhsm2-util

. tests/support/provider.sh
cargo build --locked --quiet --bin sealgate
begin clients
read -r port admin rp mcp < <(node tests/support/free_ports.mjs 4)
configure "$port" "$admin" <<END
[form_post]
clients = ["web"]
[keys]
algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
[[app]]
name = "wiki"
host = "wiki.localhost"
upstreams = ["http://127.0.0.1:$rp"]
scopes = { "wiki:read" = "Read pages", "wiki:write" = "Change pages" }
alg = "ES256"
[tokens]
logout_networks = ["127.0.0.1", "::1"]
[registration]
mode = "open"
# Not every resolver supports names below localhost.
[[app]]
name = "notes"
host = "127.0.0.1"
upstreams = ["http://127.0.0.1:$mcp"]
agents = true
scopes = { "notes:read" = "Read notes", "notes:write" = "Change notes" }
[[app.route]]
path = "/mcp"
access = "bearer"
resource = true
scopes = ["notes:read"]
END

# The environment of a relying party. SIGNED_OUT_PAGE is for relying parties that protect all other
# paths.
export ISSUER="http://localhost:$port" RP_PORT="$rp"
export REDIRECT_URI="http://localhost:$rp/callback" SIGNED_OUT_URI="http://localhost:$rp/"
export SIGNED_OUT_PAGE="http://localhost:$rp/signed-out"
export CLIENT_ID=web PUBLIC_CLIENT_ID=native
export EMAIL=anna@example.test PASSWORD="correct horse battery staple" NAME="Anna Şahin"
sealgate key generate >/dev/null
sealgate user add "$EMAIL" --name "$NAME" --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
# oauth2-proxy and Auth.js have fixed callback paths.
uris=(--redirect-uri "$REDIRECT_URI" --redirect-uri "http://localhost:$rp/oauth2/callback"
    --redirect-uri "http://localhost:$rp/auth/callback/sealgate"
    --post-logout-redirect-uri "$SIGNED_OUT_URI" --post-logout-redirect-uri "$SIGNED_OUT_PAGE")
CLIENT_SECRET=$(sealgate client add "$CLIENT_ID" --name Web --type confidential "${uris[@]}" --json \
    | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
[ -n "$CLIENT_SECRET" ] || { echo "no client secret was printed" >&2; exit 1; }
export CLIENT_SECRET
sealgate client add "$PUBLIC_CLIENT_ID" --name Native --type public "${uris[@]}" >/dev/null

# Agents. One registers itself, and the test approves it.
export MCP_URL="http://127.0.0.1:$port/mcp" MCP_PORT="$mcp" CONFIG="$work/sealgate.toml" SEALGATE="$PWD/target/debug/sealgate"
sealgate client add agent --name Agent --type public --redirect-uri http://127.0.0.1/callback >/dev/null

# A client that gets tokens in its own name, for one application.
export SERVICE_CLIENT_ID=backup RESOURCE="http://wiki.localhost:$port"
SERVICE_CLIENT_SECRET=$(sealgate client add "$SERVICE_CLIENT_ID" --name Backup --type confidential \
    --service "wiki=wiki:read" --json | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
[ -n "$SERVICE_CLIENT_SECRET" ] || { echo "no client secret was printed" >&2; exit 1; }
export SERVICE_CLIENT_SECRET

# The same without a secret: the client signs assertions.
export SIGNED_CLIENT_ID=signed SIGNED_CLIENT_KEY="$work/signed.pem"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$SIGNED_CLIENT_KEY" 2>/dev/null
openssl pkey -in "$SIGNED_CLIENT_KEY" -pubout -out "$work/signed.pub"
sealgate client add "$SIGNED_CLIENT_ID" --name Signed --type confidential --service "wiki=wiki:read" \
    --jwks "$work/signed.pub" >/dev/null

# Clients with other algorithms of ID tokens, and the secrets of all of them.
for algorithm in PS256 ES256 EdDSA; do
    secret=$(sealgate client add "web-$algorithm" --name "Web $algorithm" --type confidential "${uris[@]}" \
        --id-token-signed-response-alg "$algorithm" --json | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
    export "SECRET_$algorithm=$secret"
done

# Clients that receive logout tokens and introspect tokens.
for algorithm in RS256 ES256; do
    secret=$(sealgate client add "leaver-$algorithm" --name "Leaver $algorithm" --type confidential "${uris[@]}" \
        --id-token-signed-response-alg "$algorithm" --backchannel-logout-uri "http://localhost:$rp/backchannel-logout" \
        --introspection --introspection-app wiki --json | sed -n 's/.*"client_secret": *"\([^"]*\)".*/\1/p')
    export "LEAVER_$algorithm=$secret"
done

serve

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for run in tests/clients/*/run; do names+=("$(basename "$(dirname "$run")")"); done
fi
for name in "${names[@]}"; do
    echo "== $name"
    mkdir "$work/$name"
    started=$SECONDS
    # Each relying party has its own directory and a timeout.
    STATE="$work/$name" timeout --kill-after 10 240 "tests/clients/$name/run" \
        || { echo "$name failed (exit code $?; 124 means that it took longer than 240 s)"; exit 1; }
    echo "ok $name in $((SECONDS - started)) s"
done
echo "${#names[@]} passed, 0 failed"
