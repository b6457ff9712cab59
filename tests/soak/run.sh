#!/usr/bin/env bash
# Soak test: hours of mixed load with faults, in which every answer is checked against the
# guarantees; then the same duration without a restart, in which memory, descriptors, threads and
# disk must not grow. Writes a report.
#
#   make soak [SOAK_SECONDS=28800] [SOAK_SEED=n] [SOAK_REPORT=docs]
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 077
tests/clients/need.sh node openssl softhsm2-util
[ -x /usr/libexec/p11-kit/p11-kit-server ] || { echo "install p11-kit and p11-kit-modules" >&2; exit 1; }

export SEALGATE=${SEALGATE:-$PWD/target/optimized/sealgate}
mkdir -p target
WORK=$(mktemp -d "$PWD/target/soak.XXXXXX")
export WORK
hsm/init-token.sh "$WORK/hsm" sealgate >/dev/null
export SOFTHSM2_CONF="$WORK/hsm/softhsm2.conf"
export P11_KIT_SERVER_ADDRESS="unix:path=$WORK/p11.sock"
read -r port admin upstream < <(node tests/support/free_ports.mjs 3)
export ISSUER="https://localhost:$port" APP="https://app.localhost:$port" ADMIN="http://127.0.0.1:$admin"
export UPSTREAM_PORT=$upstream REDIRECT_URI="https://rp.test/callback" SIGNED_OUT_URI="https://rp.test/"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,DNS:app.localhost" -keyout "$WORK/key.pem" -out "$WORK/certificate.pem" 2>/dev/null
export NODE_EXTRA_CA_CERTS="$WORK/certificate.pem"

# Short lifetimes and small limits, so that expiry and eviction happen during the run and the store
# reaches its final size early.
cat >"$WORK/sealgate.toml" <<END
issuer = "$ISSUER"
[server]
listen = ["127.0.0.1:$port"]
tls = { certificate = "certificate.pem", key = "key.pem" }
[admin]
listen = "127.0.0.1:$admin"
socket = "admin.sock"
[hsm]
module = "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so"
token_label = "sealgate"
pin_file = "hsm/pin"
sessions = 1
sign_timeout_seconds = 2
[store]
path = "store"
[tokens]
access_token_seconds = 120
refresh_token_seconds = 600
[sessions]
idle_seconds = 300
absolute_seconds = 600
interaction_seconds = 120
[keys]
publish_seconds = 60
rotate_seconds = 600
[audit]
max_records = 5000
[rate_limits]
authorize = 4095
sign_ins = 4095
pages = 4095
token = 4095
jwks = 4095
[login]
failures_per_address = 4095
[log]
filter = "info,pingora=warn,pingora_core=warn,pingora_proxy=warn"
[[app]]
name = "application"
host = "app.localhost"
url = "$APP"
upstreams = ["http://127.0.0.1:$upstream"]
[[app.route]]
path = "/open/"
access = "public"
[[app.route]]
path = "/api/"
access = "bearer"
[[app.route]]
path = "/"
access = "signed_in"
END

exec node tests/soak/run.mjs
