#!/usr/bin/env bash
# Schemathesis against the admin API of the real program: requests that fit the OpenAPI description and
# requests that do not. Each response must fit the description too.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077
tests/clients/need.sh node curl openssl softhsm2-util

. tests/support/provider.sh
cargo build --locked --quiet --bin sealgate

python_environment api tests/api/requirements.txt

begin api
read -r port admin upstream < <(node tests/support/free_ports.mjs 3)
configure "$port" "$admin" <<END
[api]
enabled = true
[console]
enabled = true
[rate_limits]
api = "none"
[login]
# Schemathesis also sends wrong tokens.
failures_per_address = 1000000
[[app]]
name = "wiki"
host = "wiki.localhost"
upstreams = ["http://127.0.0.1:$upstream"]
[[app.route]]
path = "/"
access = "signed_in"
END
sealgate key generate >/dev/null
export PASSWORD="correct horse battery staple"
sealgate user add anna@example.test --name Anna --role admin --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
sealgate user add ben --name Ben --group staff --password-stdin <<<"$PASSWORD" >/dev/null
sealgate client add web --name Web --type confidential --redirect-uri "http://localhost:1/callback" >/dev/null
scopes=()
for noun in users groups clients sessions keys mail; do scopes+=(--scope "$noun:read" --scope "$noun:write"); done
scopes+=(--scope audit:read --scope apps:read --scope admins:write)
token=$(sealgate api-token add schemathesis "${scopes[@]}" --json | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p')
[ -n "$token" ] || { echo "no token was printed" >&2; exit 1; }
serve

base="http://localhost:$port/api/v1" settings=$PWD/tests/api
started=$SECONDS
# check SETTINGS [OPTION…]: the examples are deterministic, so that a failure can be repeated.
check() {
    (cd "$work" && timeout --kill-after 5 300 "$venv/bin/st" --config-file "$settings/$1" run "$base/openapi.json" \
        --header "Authorization: Bearer $token" --warnings off "${@:2}") \
        || { echo "schemathesis with $1 failed (exit code $?; 124 means that it took longer than 300 s)"; exit 1; }
}
# First with objects that exist, which the other run may delete.
check existing.toml --exclude-method DELETE
check schemathesis.toml
curl -sf --max-time 5 "http://127.0.0.1:$admin/readyz" >/dev/null || { echo "the provider is not ready afterwards"; exit 1; }
# The commands were reached, and not only refused.
sealgate audit list --limit 100 --json | grep -q 'api token' || { echo "no request has changed anything"; exit 1; }
echo "ok in $((SECONDS - started)) s"
