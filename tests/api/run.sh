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

base="http://localhost:$port/api/v1"
# The seed and the number of examples are fixed, so that a failure can be repeated.
started=$SECONDS
(cd "$work" && timeout --kill-after 5 "${API_TIMEOUT:-120}" "$venv/bin/st" --config-file "$OLDPWD/tests/api/schemathesis.toml" \
    run "$base/openapi.json" --header "Authorization: Bearer $token" "$@") \
    || { echo "schemathesis failed (exit code $?; 124 means that it took too long)"; exit 1; }
curl -sf --max-time 5 "http://127.0.0.1:$admin/readyz" >/dev/null || { echo "the provider is not ready afterwards"; exit 1; }
echo "ok in $((SECONDS - started)) s"
