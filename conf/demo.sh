#!/usr/bin/env bash
# Starts everything on this machine: a SoftHSM token with a key, the provider and the gate on sled, a sample application
# behind it, one user, a public and a confidential client. State is kept in ./run/ ; delete that to start over.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077

cargo build --bin sealgate
sealgate=target/debug/sealgate
config=conf/demo.toml

mkdir -p run
# The application needs nothing but the standard library.
rustc --edition 2024 -O -o run/legacy examples/legacy.rs
[ -e run/hsm/pin ] || echo "making a SoftHSM token in run/hsm"
hsm/init-token.sh run/hsm sealgate >/dev/null
export SOFTHSM2_CONF="$PWD/run/hsm/softhsm2.conf"
if ! "$sealgate" key check --config "$config" >/dev/null 2>&1; then
    "$sealgate" key generate --config "$config"
    "$sealgate" key wrap-init --config "$config" >/dev/null
fi

# The password and the secret are kept so that the next start can show them again. A demonstration only.
email=demo@example.com
if [ ! -e run/password ]; then
    openssl rand -base64 12 >run/password.new
    "$sealgate" user add --config "$config" --email "$email" --name "Demo Şahin" --phone "+90 212 555 01 01" \
        --email-verified --role admin --group staff --password-stdin <run/password.new >/dev/null
    mv run/password.new run/password
fi
if [ ! -e run/client-secret ]; then
    "$sealgate" client add --config "$config" --id demo-web --name "Demo Web Application" --type confidential \
        --redirect-uri http://localhost:3000/callback --post-logout-redirect-uri http://localhost:3000/ --json \
        | sed -n 's/.*"client_secret":"\([^"]*\)".*/\1/p' >run/client-secret.new
    mv run/client-secret.new run/client-secret
fi
if [ ! -e run/public-client ]; then
    "$sealgate" client add --config "$config" --id demo-native --name "Demo Native Application" --type public \
        --redirect-uri http://127.0.0.1/callback --redirect-uri http://localhost:3000/callback \
        --post-logout-redirect-uri http://localhost:3000/ >/dev/null
    touch run/public-client
fi

run/legacy 127.0.0.1:8081 &
legacy=$!
trap 'kill "$legacy" 2>/dev/null || true' EXIT

cat <<END

  application    http://app.localhost:8080/     (public part: /public/, bearer tokens only: /api/)
  provider       http://localhost:8080          (discovery: /.well-known/openid-configuration)
  your account   http://localhost:8080/account
  the console    http://localhost:8080/console
  metrics        http://127.0.0.1:9100/metrics

  user           $email
  password       $(cat run/password)

  public client        demo-native   redirect http://127.0.0.1/callback, any port
  confidential client  demo-web      redirect http://localhost:3000/callback
                       secret        $(cat run/client-secret)

  Stop with Ctrl-C.

END
"$sealgate" serve --config "$config"
