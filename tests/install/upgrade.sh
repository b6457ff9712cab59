#!/usr/bin/env bash
# make test-upgrade: installs an older package in a Debian 12 container that boots systemd, uses it, installs the newer
# package as docs/how-to/upgrade.md says, and uses that.
#
#   tests/install/upgrade.sh NEWER.deb [OLDER.deb]
#
# Without OLDER, both are the same package: that tests the package's scripts, but no change of the store. Needs root; tests/install/machine.sh names the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."
newer=$(realpath "$1")
older=${2:+$(realpath "$2")}
[ "$(id -u)" = 0 ] || exec sudo KEEP="${KEEP:-}" "$0" "$newer" ${older:+"$older"}
. tests/install/machine.sh

boot
cp "$newer" "$root/root/newer.deb"
# Before a release, both packages may have the same version.
dpkg-deb --raw-extract "${older:-$newer}" "$root.older"
sed -i 's/^Version: .*/&~older/' "$root.older/DEBIAN/control"
dpkg-deb --root-owner-group --build "$root.older" "$root/root/older.deb" >/dev/null
version() { dpkg-deb --field "$root/root/$1.deb" Version; }
dpkg --compare-versions "$(version older)" lt "$(version newer)" ||
    { echo "$(version older) is not older than $(version newer)"; exit 1; }

step "install $(version older) and use it"
inside '
    apt-get install -y ./older.deb </dev/null >/dev/null
    openssl req -x509 -newkey rsa:2048 -nodes -keyout privkey.pem -out fullchain.pem -days 90 -subj /CN=id.example.com \
        -addext subjectAltName=DNS:id.example.com,DNS:wiki.example.com 2>/dev/null
    install -m 640 -g sealgate -t /etc/sealgate/tls fullchain.pem privkey.pem
    echo "127.0.0.1 id.example.com wiki.example.com" >> /etc/hosts
    mkdir -p /srv/wiki && echo "the page of the wiki for staff" > /srv/wiki/staff.html
    systemd-run --quiet --unit=wiki busybox httpd -f -p 127.0.0.1:8081 -h /srv/wiki
'
set_up=$(inside 'sealgate init --issuer https://id.example.com --protect wiki.example.com=http://127.0.0.1:8081 \
    --tls /etc/sealgate/tls/fullchain.pem,/etc/sealgate/tls/privkey.pem --admin anna@example.com')
link=$(grep -o 'https://id.example.com/oauth/invitation?token=[A-Za-z0-9_-]*' <<<"$set_up")
is_up
page=https://wiki.example.com/staff.html
visit first_visit.mjs "$link" anna@example.com "$page" "the page of the wiki for staff" 60000 "$root.state"
inside '
    printf "\n# edited by the operator\n" >> /etc/sealgate/sealgate.toml
    sealgate_do client add shop --name Shop --type public --redirect-uri https://shop.example.com/callback >/dev/null
    sealgate_do key rotate >/dev/null
'
key=$(active)
records=$(inside 'sealgate_do audit list' | wc -l)

step "upgrade to $(version newer) while requests arrive"
inside '
    while sleep 0.02; do
        curl -sk --max-time 5 -o /dev/null -w "%{http_code} %{time_total}\n" https://id.example.com/.well-known/openid-configuration || true
    done > /root/answers & echo $! > /root/load
    apt-get install -y ./newer.deb </dev/null >/dev/null
    for _ in $(seq 300); do curl -skf -o /dev/null https://id.example.com/.well-known/openid-configuration && break; sleep 0.1; done
    sleep 0.5
    kill "$(cat /root/load)"
'
echo "requests during the upgrade: $(cut -d" " -f1 "$root/root/answers" | sort | uniq -c | awk '{ printf "%s %s times; ", $2, $1 }')"
is_up
same "$(inside "dpkg-query -W -f '\${Version}' sealgate")" "$(version newer)"
has "$(inside 'cat /etc/sealgate/sealgate.toml')" "# edited by the operator"

step "everything is as before"
has "$(inside 'sealgate_do check')" ": ok"
same "$(active)" "$key"
has "$(inside 'sealgate_do user list')" anna@example.com
has "$(inside 'sealgate_do client list')" shop
[ "$(inside 'sealgate_do audit list' | wc -l)" -ge "$records" ] || { echo "records of the audit log are missing"; exit 1; }
visit return_visit.mjs "$root.state" anna@example.com "$page" "the page of the wiki for staff"
has "$(inside 'sealgate doctor --skip clock --skip certificate --skip backup')" " 0 warnings, 0 problems"
echo "upgraded from $(version older) to $(version newer): sessions, password, keys, clients, audit log and configuration are kept"
