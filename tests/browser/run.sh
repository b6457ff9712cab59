#!/usr/bin/env bash
# Tests every page in Chromium against the real program: the provider, the gateway and the sample
# application. The tests receive and read the mails that it sends.
#
#   tests/browser/run.sh [PART…]
#
# A PART limits the run to states and walks whose names contain it. Screenshots are written to
# screenshots/.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in node npm curl softhsm2-util; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: run .ci/install browser" >&2; exit 1; }
done
: "${CHROMIUM:=/usr/bin/chromium}" "${HEADLESS_SHELL:=/usr/bin/chromium-headless-shell}"
for program in "$CHROMIUM" "$HEADLESS_SHELL"; do
    [ -x "$program" ] || { echo "$program is missing: run .ci/install browser" >&2; exit 1; }
done
export CHROMIUM HEADLESS_SHELL

. tests/support/provider.sh
cargo build --locked --quiet --bin sealgate --example legacy
# Not earlier: tests with other users run the same program.
umask 077
(cd tests/browser && npm ci --silent --no-audit --no-fund)
begin browser
# No server listens on $away.
read -r port admin upstream callback away brief brief_admin mail turkish turkish_admin moving moving_admin < <(node tests/support/free_ports.mjs 12)
# A trusted proxy lets each browser have its own client address and thus its own rate limits.
export OPERATOR="Örnek Kurumu" MAIL_PORT="$mail" MAIL_FROM="no-reply@example.test"
# Recipe for the login form of an application. No server listens there.
recipe=$work/recipe.toml
cat >"$recipe" <<'END'
page = "/login"
fields = { user = "{user}", password = "{password}" }
probe = "/profile"
success = { status = [200] }
expired = { status = [302] }
END
# Directory to which users can link their account. No server listens there.
directory_password=$work/directory-password
echo secret >"$directory_password"
# Prints configuration sections for providers that send mail.
sections() {
    cat <<END
[login]
failures_per_account = 4
[sessions]
keep_signed_in = "choice"
[form_post]
enabled = true
[pages]
operator = "$OPERATOR"
$1
[mail]
host = "127.0.0.1"
port = $mail
tls = "none"
from = "$OPERATOR <$MAIL_FROM>"
per_minute = 6000
[registration_of_people]
mode = "open"
[console]
enabled = true
applications_file = "applications.toml"
edit_applications = true
[api]
enabled = true
[[console.user_manager]]
group = "destek"
manages = ["öğrenciler", "çalışanlar"]
[factors]
groups = { zorunlu = "2" }
enrol_by = "2999-12-31"
[[app]]
name = "legacy"
host = "app.localhost"
description = "Aylık raporlar, izinler ve masraflar"
upstreams = ["http://127.0.0.1:$upstream"]
[[app.route]]
path = "/"
access = "signed_in"
[[app.route]]
path = "/git/"
access = "signed_in"
app_passwords = true
[[app.route]]
path = "/staff/"
access = "signed_in"
groups = ["staff"]
[[app]]
name = "photos"
host = "photos.localhost"
title = "Fotoğraf Arşivi"
upstreams = ["http://127.0.0.1:$upstream"]
app_password_header = "X-App-Password"
[[app.route]]
path = "/"
access = "signed_in"
app_passwords = true
[[app]]
name = "away"
host = "away.localhost"
upstreams = ["http://127.0.0.1:$away"]
[[app.route]]
path = "/"
access = "public"
[[app]]
name = "notes"
host = "notes.localhost"
title = "Not Defteri ve Toplantı Tutanakları"
upstreams = ["http://127.0.0.1:$away"]
login = { recipe = "$recipe" }
[[app.route]]
path = "/"
access = "signed_in"
[[directory]]
name = "kurum"
kind = "ldap"
servers = ["ldap://127.0.0.1:$away"]
domains = ["kurum.example"]
[directory.bind]
dn = "cn=sealgate,dc=kurum,dc=example"
password_file = "$directory_password"
[directory.users]
base = "ou=people,dc=kurum,dc=example"
END
}
# Writes the application that administrators change in the console.
applications() {
    cat >"$work/applications.toml" <<END
[[app]]
name = "takim"
title = "Takım Çalışması"
host = "takim.localhost"
upstreams = ["http://127.0.0.1:$upstream"]
[[app.route]]
path = "/"
access = "signed_in"
[[app.route]]
path = "/ekip/"
access = "signed_in"
groups = ["yönetim"]
END
}
applications
configure "$port" "$admin" 'trusted_proxies = ["127.0.0.1"]' < <(sections "")

export ISSUER="http://localhost:$port" CALLBACK_PORT="$callback" APP="http://app.localhost:$port"
export AWAY="http://away.localhost:$port" PASSWORD="doğru at pil zımba"
sealgate key generate >/dev/null
target/debug/examples/legacy "127.0.0.1:$upstream" >/dev/null &
pids+=($!)
serve

# Two users for each parallel run. One has long names, to test narrow pages.
for lane in en-script tr-script tr-plain walk-script walk-plain; do
    sealgate user add "gulsah.karaosmanoglu.$lane@example.test" --name "Gülşah İpek Karaosmanoğlu" \
        --phone "+90 555 111 22 33" --email-verified --role admin --role developer --password-stdin \
        <<<"$PASSWORD" >/dev/null
    sealgate user add "isik.$lane@example.test" --name "Işık Ağaoğlu" --password-stdin <<<"$PASSWORD" >/dev/null
done
# Users who have second factors, or must add one, in each of those runs.
for lane in en-script tr-script tr-plain; do
    sealgate user add "ikiadim.$lane@example.test" --name "İki Adım" --password-stdin <<<"$PASSWORD" >/dev/null
    sealgate user add "zorunlu.$lane@example.test" --name "Zorunlu Kişi" --group zorunlu --password-stdin \
        <<<"$PASSWORD" >/dev/null
    # An auditor, a user manager, and a user whom the manager manages.
    sealgate user add "denetci.$lane@example.test" --name "Deniz Denetçi" --role auditor --password-stdin \
        <<<"$PASSWORD" >/dev/null
    sealgate user add "sorumlu.$lane@example.test" --name "Mert Sorumlu" --group destek --password-stdin \
        <<<"$PASSWORD" >/dev/null
    sealgate user add "ogrenci.$lane@example.test" --name "Mia Öğrenci" --group öğrenciler --group kulüp \
        --password-stdin <<<"$PASSWORD" >/dev/null
    sealgate user add "kapali.$lane@example.test" --name "Kerem Kapalı" --group öğrenciler --password-stdin \
        <<<"$PASSWORD" >/dev/null
    sealgate user disable "kapali.$lane@example.test" >/dev/null
done
for mode in script plain; do
    sealgate user add "zorunlu.$mode@example.test" --name "Zorunlu Kişi" --group zorunlu --password-stdin \
        <<<"$PASSWORD" >/dev/null
done
# Users who add second factors in the walks, with and without JavaScript. Keys need JavaScript.
for walker in {1..8}.script {1,2,4,8}.plain; do
    sealgate user add "adim.$walker@example.test" --name "Adım Güvenlioğlu" --password-stdin <<<"$PASSWORD" >/dev/null
done
# Users who forget their password.
for mode in script plain; do
    sealgate user add "unutkan.$mode@example.test" --name "Unutkan Kişi" --email-verified --password-stdin \
        <<<"$PASSWORD" >/dev/null
done
# Users who change their address.
for mode in script plain; do
    sealgate user add "adres.$mode@example.test" --name "Adres Değiştiren" --password-stdin <<<"$PASSWORD" >/dev/null
done
for lane in en-script tr-script tr-plain; do
    for name in geri kapanan; do
        sealgate user add "$name.$lane@example.test" --name "Adresi Değiştirilen" --email-verified --password-stdin \
            <<<"$PASSWORD" >/dev/null
    done
done
# Users whom an administrator disables and enables again.
for lane in walk-script walk-plain; do
    sealgate user add "leaver.$lane@example.test" --name "Ayrılan Kişi" --password-stdin <<<"$PASSWORD" >/dev/null
done
uris=(--redirect-uri "http://localhost:$callback/callback" --post-logout-redirect-uri "http://localhost:$callback/")
sealgate client add reports --name "Aylık Raporlar" --type public "${uris[@]}" >/dev/null
sealgate client add calendar --name "Takvim" --type public "${uris[@]}" >/dev/null
# Requires a security key or a passkey.
sealgate client add vault --name "Kasa" --type public --level 3 "${uris[@]}" >/dev/null

# serve_other NAME PORT ADMIN_PORT [SERVER_LINE…]: starts another provider with its own token and
# the users of the walks. Standard input is appended to its configuration.
serve_other() {
    local work=$work/$1
    local -x SOFTHSM2_CONF=$work/hsm/softhsm2.conf
    mkdir "$work"
    applications
    configure "${@:2}"
    hsm/init-token.sh "$work/hsm" sealgate >/dev/null
    sealgate key generate >/dev/null
    for lane in walk-script walk-plain; do
        sealgate user add "gulsah.karaosmanoglu.$lane@example.test" --name "Gülşah İpek Karaosmanoğlu" --email-verified \
            --role admin --password-stdin <<<"$PASSWORD" >/dev/null
    done
    sealgate client add reports --name "Aylık Raporlar" --type public "${uris[@]}" >/dev/null
    serve
}
# Sign-ins expire while a user types.
serve_other brief "$brief" "$brief_admin" <<<$'[sessions]\ninteraction_seconds = 5'
# Sends Turkish mail to users without a known language.
serve_other turkish "$turkish" "$turkish_admin" 'trusted_proxies = ["127.0.0.1"]' < <(sections 'default_language = "tr"')
export BRIEF="http://localhost:$brief" TURKISH="http://localhost:$turkish"
# Files in which the walks change a setting.
export ISSUER_FILE="$work/sealgate.toml" TURKISH_FILE="$work/turkish/sealgate.toml"

# A provider whose issuer moves to another host. A walk starts it with one configuration, then with the
# other. Browsers use keys of another host only with https and port 443, so they map the hosts to its port.
moves() {
    local work=$work/moving
    local -x SOFTHSM2_CONF=$work/hsm/softhsm2.conf
    mkdir "$work"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=moving \
        -addext "subjectAltName=DNS:${MOVING_HOSTS% *},DNS:${MOVING_HOSTS#* }" \
        -keyout "$work/tls.key" -out "$work/tls.pem" 2>/dev/null
    MOVING_SPKI=$(openssl x509 -in "$work/tls.pem" -noout -pubkey | openssl pkey -pubin -outform der |
        openssl dgst -sha256 -binary | base64)
    configure "$moving" "$moving_admin" "tls = { certificate = \"$work/tls.pem\", key = \"$work/tls.key\" }" \
        < <(printf '[factors]\n#rp_id = "%s"\n' "${MOVING_HOSTS% *}")
    hsm/init-token.sh "$work/hsm" sealgate >/dev/null
    sed "s|^issuer = .*|issuer = \"https://${MOVING_HOSTS#* }\"|; s|^#rp_id|rp_id|" "$work/sealgate.toml" >"$work/moved.toml"
    sed -i "s|^issuer = .*|issuer = \"https://${MOVING_HOSTS% *}\"|" "$work/sealgate.toml"
    sealgate key generate >/dev/null
    sealgate user add "gulsah.karaosmanoglu.walk-script@example.test" --name "Gülşah İpek Karaosmanoğlu" --password-stdin \
        <<<"$PASSWORD" >/dev/null
}
export MOVING_HOSTS="login.moving.test id.moving.test" MOVING_SPKI="" MOVING_PORT="$moving" MOVING_ADMIN="$moving_admin" MOVING_WORK="$work/moving"
moves

export FAULTS_FILE="$work/faults"
timeout --kill-after 10 "${BROWSER_TIMEOUT:-1500}" node tests/browser/main.mjs "$@" \
    || { echo "tests/browser failed (exit code $?; 124 means that it took too long)"; exit 1; }
