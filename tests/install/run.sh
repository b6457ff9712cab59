#!/usr/bin/env bash
# make test-install: tests the package in a Debian 12 container that boots systemd, with the literal
# commands of docs/how-to: installation, rotation, emergency, restore, upgrade, removal
# and purge.
#
#   tests/install/run.sh PACKAGE.deb
#
# Needs root; tests/install/machine.sh names the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=$(realpath "$1")
[ "$(id -u)" = 0 ] || exec sudo KEEP="${KEEP:-}" "$0" "$package"

. tests/install/machine.sh

# doc FILE HEADING N: prints the N-th command block below a heading of the documentation.
told=$root.told
: >"$told"
doc() {
    awk -v heading="$2" -v wanted="$3" '
        /^#+ / { inside = ($0 ~ "^#+ " heading "$") }
        /^```$/ { if (printing) exit }
        printing { print }
        inside && /^```sh$/ { if (++count == wanted) printing = 1 }
    ' "docs/$1"
}
# run FILE HEADING N: executes the block and records it.
run() {
    local block
    block=$(doc "$1" "$2" "$3")
    [ -n "$block" ] || { echo "docs/$1 has no block $3 below \"$2\""; return 1; }
    echo "$1|$2|$3" >>"$told"
    # The page about signing keys names a configuration file; sealgate_do uses the installed one.
    inside "$(sed -E 's/^sealgate (.*) --config FILE/sealgate_do \1/' <<<"$block")"
}

kids() { inside 'curl -sfk --resolve id.example.com:443:127.0.0.1 https://id.example.com/oauth/jwks' | grep -o '"kid":"[^"]*"' | cut -d'"' -f4; }
in_state() { inside 'sealgate_do key list' | awk -v state="$1" '$2 == state { print $1 }'; }
# The start logs no warnings or errors, of the service or of SoftHSM.
is_quiet() { same "$(inside 'journalctl -q --no-pager -b -p warning -u sealgate -o cat' | grep -vE "$1" || true)" ""; }

boot

step "lint the package"
lintian --fail-on error "$package"

step "the steps of docs/how-to/install.md"
mkdir -p "$root/root/target/debian"
cp "$package" "$root/root/target/debian/"
install_block=$(doc how-to/install.md Install 1)
has "$install_block" "make deb"
echo "how-to/install.md|Install|1" >>"$told"
inside "$(grep -v '^make deb$' <<<"$install_block")" >/dev/null
inside '
    systemctl cat sealgate >/dev/null
    ! systemctl is-active --quiet sealgate
    ! systemctl is-enabled --quiet sealgate
    [ "$(stat -c "%a %U:%G" /etc/sealgate/tls)" = "750 root:sealgate" ]
    [ -x /usr/sbin/sealgate_do ] && [ -e /usr/share/bash-completion/completions/sealgate ]
    [ -e /usr/share/doc/sealgate/how-to/install.md ] && [ -e /usr/share/man/man1/sealgate-key-rotate.1.gz ]
    [ ! -e /etc/sealgate/sealgate.toml ] && [ -e /usr/share/doc/sealgate/examples/sealgate.toml ]
    sealgate --version
'
inside '
    openssl req -x509 -newkey rsa:2048 -nodes -keyout privkey.pem -out fullchain.pem -days 90 -subj /CN=id.example.com \
        -addext subjectAltName=DNS:id.example.com,DNS:wiki.example.com,DNS:chat.example.com 2>/dev/null
    echo "seven purple tractors dancing" > password.txt
    echo "127.0.0.1 id.example.com wiki.example.com" >> /etc/hosts
    mkdir -p /srv/wiki/public && echo "the public page of the wiki" > /srv/wiki/public/index.html
    echo "the page of the wiki for staff" > /srv/wiki/staff.html
    systemd-run --quiet --unit=wiki busybox httpd -f -p 127.0.0.1:8081 -h /srv/wiki
'
run how-to/install.md Install 2
begun=$(date +%s%3N)
set_up=$(run how-to/install.md Install 3)
has "$set_up" "https://id.example.com/oauth/invitation?token="
link=$(grep -o 'https://id.example.com/oauth/invitation?token=[A-Za-z0-9_-]*' <<<"$set_up")
visit first_visit.mjs "$link" anna@example.com https://wiki.example.com/staff.html \
    "the page of the wiki for staff" "$((begun + 60000 - $(date +%s%3N)))"
echo "from sealgate init to the application in Chromium: $(($(date +%s%3N) - begun)) ms"
lacks "$set_up" warning
is_up
has "$(inside 'curl -sk -o /dev/null -w "%{http_code} %{redirect_url}" -H "Accept: text/html" https://wiki.example.com/staff')" "https://id.example.com/oauth/authorize"
echo "how-to/troubleshooting.md|Examine an installation|1" >>"$told"
examined=$(inside 'sealgate doctor || true' 2>/dev/null)
has "$examined" "ok       hardening     the unit has the protections of the package"
has "$examined" "ok       limits "
has "$examined" "warning  backup        the store was never backed up"
inside 'sealgate backup --to /var/lib/sealgate/first' >/dev/null
# No time service runs here, and no authority issued the certificate.
for user in root sealgate; do
    has "$(inside "runuser -u $user -- sealgate doctor --skip clock --skip certificate")" " 0 warnings, 0 problems, 0 skipped"
done
again=$(inside 'sealgate init --admin anna@example.com')
lacks "$again" "https://id.example.com/oauth/invitation"
inside 'sealgate app add chat.example.com=http://127.0.0.1:8082' >/dev/null
has "$(inside 'sealgate_do check')" ": ok"
inside '
    systemctl disable --quiet --now sealgate
    rm -r /etc/sealgate/sealgate.toml /etc/sealgate/pkcs11-pin /var/lib/sealgate
'

step "the other steps of docs/how-to/install.md"
run how-to/install.md "Set up each part yourself" 1
inside 'printf "\n# edited by the operator\n" >> /etc/sealgate/sealgate.toml'
token=$(doc how-to/install.md "Set up each part yourself" 2)
echo "how-to/install.md|Set up each part yourself|2" >>"$told"
inside "$(head -n 1 <<<"$token")"
tests/install/answer.py 73105526 73105526 648219 648219 -- \
    nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup --root --wd -- bash -c "$(tail -n 1 <<<"$token")"
echo
fails 'sealgate_do check' >/dev/null
run how-to/install.md "Set up each part yourself" 3 <<<648219
run how-to/install.md "Set up each part yourself" 4
run how-to/install.md "Set up each part yourself" 5
is_up
has "$(inside 'curl -sfk https://wiki.example.com/public/index.html')" "the public page of the wiki"
has "$(inside 'curl -sk -o /dev/null -w "%{http_code} %{redirect_url}" -H "Accept: text/html" https://wiki.example.com/staff')" "https://id.example.com/oauth/authorize"
is_quiet '^$'
has "$(inside 'systemctl show -p Result sealgate')" success

step "docs/how-to/signing-keys.md: rotate, restart, emergency"
first=$(active)
plan=$(run how-to/signing-keys.md "Rotate the signing key" 1)
has "$plan" pre_published
same "$(kids | wc -l)" 2
has "$(inside 'sealgate_do check')" ": ok"
lacks "$(inside 'sealgate_do check')" warning
fails 'sealgate_do key rotate' >/dev/null
has "$(fails 'sealgate_do key generate-wrapping-key')" "it already exists"
echo "how-to/signing-keys.md|The wrapping key|1" >>"$told" # for a token from before: the first signing key comes with it
inside 'systemctl restart sealgate'
is_up
same "$(kids | wc -l)" 2
second=$(in_state pre_published)
run how-to/signing-keys.md "Respond to a compromised key" 1 2>/dev/null >/dev/null
same "$(active)" "$second"
same "$(kids)" "$second"
inside 'systemctl restart sealgate'
same "$(kids)" "$second"
inside 'sealgate_do key generate --next' >/dev/null
same "$(kids | wc -l)" 2
is_quiet '^$'

step "a token that the service may not write: the rotation fails, the start does not"
inside '
    mkdir -p /run/systemd/system/sealgate.service.d
    printf "[Service]\nReadWritePaths=\n" > /run/systemd/system/sealgate.service.d/test.conf
    systemctl daemon-reload && systemctl restart sealgate
'
waiting=$(in_state pre_published)
inside "sealgate_do key retire $waiting" >/dev/null
has "$(fails 'sealgate_do key rotate')" "the server does not find the key"
begun=$(in_state begun)
has "$(inside 'sealgate_do check')" "key $begun was generated here"
inside 'systemctl restart sealgate'
is_up
inside 'rm -r /run/systemd/system/sealgate.service.d && systemctl daemon-reload && systemctl restart sealgate'
has "$(inside 'sealgate_do key rotate')" "$begun"
has "$(inside 'sealgate_do check')" ": ok"

step "what cannot be started is told before"
inside 'sed -i.kept "s/^token_label = .*/token_label = \"other\"/" /etc/sealgate/sealgate.toml'
has "$(fails 'sealgate_do check')" 'no token has the label "other"'
fails 'systemctl restart sealgate' >/dev/null
inside 'mv /etc/sealgate/sealgate.toml.kept /etc/sealgate/sealgate.toml && systemctl start sealgate'

step "reload, audit trail"
run how-to/change-the-configuration.md "Change the configuration" 1
run how-to/monitoring.md "Audit log" 1 >/dev/null
has "$(inside 'sealgate_do audit list --kind keys_changed')" "activate $begun"

step "users and clients"
users=$(doc how-to/users-and-groups.md "Add a user" 1)
echo "how-to/users-and-groups.md|Add a user|1" >>"$told"
inside "${users//anna@/cem@}" >/dev/null # anna was added by the installation
run how-to/users-and-groups.md "Add a user" 2 >/dev/null
inside 'printf "email,name\nece@example.com,Ece Ak\n" > people.csv'
run how-to/users-and-groups.md "Import users with their password hashes" 1 >/dev/null
has "$(inside 'sealgate_do user list')" ece@example.com
deleted=$(doc how-to/users-and-groups.md "Delete a user" 1)
echo "how-to/users-and-groups.md|Delete a user|1" >>"$told"
inside "${deleted//anna@/ece@}" >/dev/null # anna administers the installation
run how-to/register-a-client.md "Register a client" 1 >/dev/null
has "$(inside 'sealgate_do client list')" shop
run how-to/register-a-client.md "Define clients in the configuration file" 1

step "a killed server comes back"
inside '
    before=$(systemctl show -p MainPID --value sealgate)
    kill -9 "$before"
    for _ in $(seq 200); do
        now=$(systemctl show -p MainPID --value sealgate)
        [ "$now" != 0 ] && [ "$now" != "$before" ] && [ "$(systemctl is-active sealgate)" = active ] && exit 0
        sleep 0.1
    done
    exit 1
'

step "backup, a key removed with --now or --emergency, restore"
run how-to/backup-and-restore.md "Back up" 1 >/dev/null
looked=$(doc how-to/backup-and-restore.md "Back up" 2)
echo "how-to/backup-and-restore.md|Back up|2" >>"$told"
inside "$(sed "s/backup-2026-11-20/backup-$(inside 'date +%F')/" <<<"$looked")" >/dev/null
stolen=$(active)
inside 'sealgate_do key rotate --emergency' >/dev/null 2>&1
inside 'sealgate_do key rotate --emergency' >/dev/null 2>&1
new=$(active)
restore=$(doc how-to/backup-and-restore.md Restore 1)
echo "how-to/backup-and-restore.md|Restore|1" >>"$told"
said=$(inside "$(sed "s/backup-2026-11-20/backup-$(inside 'date +%F')/; /systemctl start/d" <<<"$restore")")
has "$said" "key $stolen: active, removed in the token"
has "$said" "sealgate key announce $new"
has "$(fails 'sealgate_do check')" "$new"
fails 'systemctl start sealgate' >/dev/null
inside "sealgate_do key announce $new && sealgate_do key remove --now $stolen" >/dev/null 2>&1
lacks "$(inside 'sealgate_do check')" "not announced"
inside 'systemctl reset-failed sealgate; systemctl start sealgate'
is_up
same "$(active)" "$new"
lacks "$(kids)" "$stolen"
has "$(inside 'sealgate_do user list')" anna@example.com
has "$(grep 'systemctl start' <<<"$restore")" "systemctl start sealgate"

step "a store from which something is missing"
inside 'systemctl stop sealgate; rm -rf /var/lib/sealgate/store.lost'
run how-to/backup-and-restore.md "Recover a damaged store" 1 >/dev/null
is_up
same "$(active)" "$new"

step "move"
run how-to/backup-and-restore.md "Move to another machine or engine" 1 >/dev/null
inside 'mv /var/lib/sealgate/store /var/lib/sealgate/store.old-machine'
has "$(run how-to/backup-and-restore.md "Move to another machine or engine" 2)" "records"
is_up
same "$(active)" "$new"

step "upgrade"
dpkg-deb --raw-extract "$package" "$root.newer"
sed -i 's/^Version: .*/&+newer/' "$root.newer/DEBIAN/control"
dpkg-deb --root-owner-group --build "$root.newer" "$root/root/newer.deb" >/dev/null
rm -rf "$root.newer"
before=$(inside 'systemctl show -p MainPID --value sealgate')
inside 'apt-get install -y ./newer.deb </dev/null' >/dev/null
is_up
[ "$(inside 'systemctl show -p MainPID --value sealgate')" != "$before" ] || { echo "the upgrade did not restart it"; exit 1; }
has "$(inside 'cat /etc/sealgate/sealgate.toml')" "# edited by the operator"
has "$(inside 'sealgate_do user list')" anna@example.com
same "$(active)" "$new"

step "remove, install again"
inside 'apt-get remove -y sealgate' >/dev/null 2>&1
inside '
    [ ! -e /usr/bin/sealgate ] && [ -d /var/lib/sealgate/store ] && [ -e /etc/sealgate/pkcs11-pin ] && [ -e /etc/sealgate/sealgate.toml ]
    ! pgrep -x sealgate
    apt-get install -y ./newer.deb </dev/null >/dev/null
    systemctl start sealgate
'
is_up
same "$(active)" "$new"

step "purge"
inside 'apt-get purge -y sealgate' >/dev/null 2>&1
inside '
    [ ! -e /etc/sealgate/pkcs11-pin ] && [ ! -e /etc/sealgate/sealgate.toml ] && [ ! -e /var/lib/sealgate/store ]
    ls -d /var/lib/sealgate/backup-* >/dev/null
    [ -n "$(ls /var/lib/softhsm/tokens)" ]
    [ -z "$(systemctl list-unit-files --no-legend "sealgate*")" ]
    ! pgrep -x sealgate
    rm -r /var/lib/sealgate
'

step "all that the documentation has to run was run"
# Blocks that are not executed, with reasons.
echo "how-to/install.md|Without the package|1" >>"$told" # the same files by hand; it builds the program in the machine
echo "how-to/users-and-groups.md|Invite users|1" >>"$told" # needs a mail server
echo "how-to/monitoring.md|Logs|1" >>"$told" # follows the log without an end
for file in how-to/{install,monitoring,change-the-configuration,signing-keys,backup-and-restore,users-and-groups,register-a-client,upgrade,mail,tls,troubleshooting}.md; do
    awk -v file="$file" '
        /^#+ / { sub(/^#+ /, ""); heading = $0; count = 0 }
        /^```sh$/ { print file "|" heading "|" ++count }
    ' "docs/$file"
done | while read -r block; do
    grep -qxF -- "$block" "$told" || { echo "docs: $block is run by nothing here"; exit 1; }
done
echo "installed, rotated, restored, upgraded and purged on a booted Debian 12"
