#!/usr/bin/env bash
# gRPC's own Python implementation through the gateway: its client over TLS with HTTP/2, its server behind
# the gateway over HTTP/2 without TLS.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077
tests/clients/need.sh node curl openssl softhsm2-util

. tests/support/provider.sh
cargo build --locked --quiet --bin sealgate

python_environment grpc tests/grpc/requirements.txt

begin grpc
read -r port admin upstream < <(node tests/support/free_ports.mjs 3)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,DNS:app.localhost" -out "$work/server.pem" -keyout "$work/server.key" 2>/dev/null
configure "$port" "$admin" "tls = { certificate = \"$work/server.pem\", key = \"$work/server.key\" }" <<END
[[app]]
name = "calls"
host = "app.localhost"
upstreams = ["http://127.0.0.1:$upstream"]
upstream_protocol = "h2"
[[app.route]]
path = "/"
access = "bearer"
[[app.route]]
path = "/test.Socket/"
access = "bearer"
upstreams = ["unix:$work/calls.sock"]
END
sed -i 's|^issuer = "http:|issuer = "https:|' "$work/sealgate.toml"
sealgate key generate >/dev/null
export PASSWORD="correct horse battery staple"
sealgate user add anna@example.test --name Anna --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
sealgate client add program --name Program --type public --redirect-uri "http://localhost:1/callback" >/dev/null
serve
PORT=$port UPSTREAM=$upstream WORK=$work timeout --kill-after 5 240 "$venv/bin/python" tests/grpc/test.py \
    || { echo "the test failed (exit code $?; 124 means that it took longer than 240 s)"; exit 1; }
