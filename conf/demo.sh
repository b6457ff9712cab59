#!/usr/bin/env bash
# Starts a demonstration on this machine: a SoftHSM token with a key, provider and gateway with a sled
# store, a sample application, one user, a public and a confidential client. State is in ./run/; delete
# it to start over.
#
# PORT=8080: the public port. APP_PORT (PORT + 1) and ADMIN_PORT (PORT + 1020) are the sample application's and the metrics'.
# SEALGATE=FILE: the program to run; by default it is found or built.
# MAIL_PORT=1025: sends mail to the server on this port of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077

port=${PORT:-8080}
app_port=${APP_PORT:-$((port + 1))}
admin_port=${ADMIN_PORT:-$((port + 1020))}
run=${RUN:-run}

# Check this before the build, which takes minutes.
for taken in "$port" "$app_port" "$admin_port"; do
    if (exec 3<>"/dev/tcp/127.0.0.1/$taken") 2>/dev/null; then
        echo "port $taken of this machine is taken (ss -ltnp shows by whom); choose others: make run PORT=$((port + 1000))" >&2
        exit 1
    fi
done

.ci/install run

if ! command -v rustc >/dev/null; then
    echo "no Rust here; get it (1.95 or newer) from https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    exit 1
fi

release=target/release/sealgate
if [ -n "${SEALGATE:-}" ]; then
    sealgate=$SEALGATE
elif [ -x "$release" ] && [ -z "$(find src Cargo.toml Cargo.lock -newer "$release" -print -quit)" ]; then
    sealgate=$release
elif [ ! -x "$release" ] && [ ! -x target/debug/sealgate ] && [ -x /usr/bin/sealgate ]; then
    sealgate=/usr/bin/sealgate
else
    sealgate=target/debug/sealgate
    [ -x "$sealgate" ] || echo "building a debug build; the first time takes 3 to 10 minutes and 2 GB of disk"
    ${CARGO:-cargo} build --locked --bin sealgate
fi
case "$sealgate" in
    *debug*) echo "running $sealgate, a debug build: it is several times slower than a release (cargo build --locked --release)" ;;
    *) echo "running $sealgate" ;;
esac

mkdir -p "$run"
config=$run/demo.toml
sed "s/:8080\"/:$port\"/; s/:8081\"/:$app_port\"/; s/:9100\"/:$admin_port\"/; s#\"\.\./run/#\"#" conf/demo.toml >"$config"
[ -z "${MAIL_PORT:-}" ] || cat >>"$config" <<END
[mail]
host = "127.0.0.1"
port = $MAIL_PORT
tls = "none"
from = "Sealgate demo <no-reply@example.com>"
END
# The application only needs the standard library.
[ "$run/legacy" -nt examples/legacy.rs ] || rustc --edition 2024 -O -o "$run/legacy" examples/legacy.rs
[ -e "$run/hsm/pin" ] || echo "creating a SoftHSM token in $run/hsm"
hsm/init-token.sh "$run/hsm" sealgate >/dev/null
SOFTHSM2_CONF=$(realpath "$run")/hsm/softhsm2.conf
export SOFTHSM2_CONF
if ! "$sealgate" key check --config "$config" >/dev/null 2>&1; then
    "$sealgate" key generate --config "$config"
elif "$sealgate" key check --config "$config" --json 2>/dev/null | grep -q '"wrapping_keys":\[\]'; then
    # Earlier versions did not create the wrapping key with the first signing key.
    "$sealgate" key generate-wrapping-key --config "$config" >/dev/null
fi

# The password and the secret are stored so that the next start can print them. For demonstrations only.
email=demo@example.com
if [ ! -e "$run/password" ]; then
    openssl rand -base64 12 >"$run/password.new"
    "$sealgate" user add --config "$config" "$email" --name "Demo Şahin" --phone "+90 212 555 01 01" \
        --email-verified --role admin --group staff --password-stdin <"$run/password.new" >/dev/null
    mv "$run/password.new" "$run/password"
fi
if [ ! -e "$run/client-secret" ]; then
    "$sealgate" client add --config "$config" demo-web --name "Demo Web Application" --type confidential \
        --redirect-uri http://localhost:3000/callback --post-logout-redirect-uri http://localhost:3000/ --json \
        | sed -n 's/.*"client_secret":"\([^"]*\)".*/\1/p' >"$run/client-secret.new"
    mv "$run/client-secret.new" "$run/client-secret"
fi
if [ ! -e "$run/public-client" ]; then
    "$sealgate" client add --config "$config" demo-native --name "Demo Native Application" --type public \
        --redirect-uri http://127.0.0.1/callback --redirect-uri http://localhost:3000/callback \
        --post-logout-redirect-uri http://localhost:3000/ >/dev/null
    touch "$run/public-client"
fi

"$run/legacy" "127.0.0.1:$app_port" &
legacy=$!
trap 'kill "$legacy" 2>/dev/null || true' EXIT

cat <<END

  application    http://app.localhost:$port/     (public part: /public/, bearer tokens only: /api/)
  provider       http://localhost:$port          (discovery: /.well-known/openid-configuration)
  your account   http://localhost:$port/account
  the console    http://localhost:$port/console
  metrics        http://127.0.0.1:$admin_port/metrics
  log            $run/log

  user           $email
  password       $(cat "$run/password")
                 an administrator, in the group "staff"

  public client        demo-native   redirect http://127.0.0.1/callback, any port
  confidential client  demo-web      redirect http://localhost:3000/callback
                       secret        $(cat "$run/client-secret")

  Next:
    add a passkey                   http://localhost:$port/account/security
    register a client, see events   http://localhost:$port/console
    call /api/ with a token         curl -H "Authorization: Bearer TOKEN" http://app.localhost:$port/api/
                                    (TOKEN: an access token of one of the clients, with the scope "profile")
    call /files/ from a program     create an application password at http://localhost:$port/account/app-passwords, then
                                    curl -u $email http://app.localhost:$port/files/

  Stop with Ctrl-C.

END
# The log goes to a file, so that the lines above stay visible.
if "$sealgate" serve --config "$config" >"$run/log" 2>&1; then exit 0; else status=$?; fi
echo "sealgate ended with status $status; the end of $run/log:" >&2
tail -n 20 "$run/log" >&2
exit "$status"
