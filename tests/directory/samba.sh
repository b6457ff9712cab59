#!/usr/bin/env bash
# Runs a command beside a Samba domain controller: samba.sh COMMAND. Needs root, because the ports are
# fixed: the domain controller and the command run in a network namespace of their own. SEALGATE_SAMBA is
# the directory with the authority's certificate (ca.pem).
set -euo pipefail

if [ "${SEALGATE_SAMBA:-}" = "" ]; then
    SEALGATE_SAMBA=$(mktemp -d)
    export SEALGATE_SAMBA
    trap 'rm -rf "$SEALGATE_SAMBA"' EXIT
    # The end of the script ends all processes of the namespace.
    unshare --net --pid --fork --kill-child --mount-proc "$0" "$@"
    exit
fi

place=$SEALGATE_SAMBA
ip link set lo up
cd "$place"
samba-tool domain provision --realm=CORP.TEST --domain=CORP --adminpass='Adm1n-pass-word' --server-role=dc \
    --dns-backend=NONE --targetdir="$place" --host-name=dc1 --host-ip=127.0.0.1 >provision.log 2>&1 || { cat provision.log; exit 1; }

key=(-newkey rsa:2048 -nodes -days 20)
openssl req -x509 "${key[@]}" -addext keyUsage=critical,keyCertSign -subj "/CN=Test CA" -keyout ca.key -out ca.pem 2>openssl.log
openssl req -x509 "${key[@]}" -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
    -CA ca.pem -CAkey ca.key -subj /CN=dc1 -keyout server.key -out server.pem 2>openssl.log
chmod 600 server.key
sed -i "s|\[global\]|[global]\n tls certfile = $place/server.pem\n tls keyfile = $place/server.key\n tls cafile = $place/ca.pem\n interfaces = lo\n bind interfaces only = yes\n server services = ldap cldap kdc drepl winbindd ntp_signd kcc|" etc/smb.conf

tool() { samba-tool "$@" --configfile="$place/etc/smb.conf" -H "$place/private/sam.ldb" >tool.log 2>&1 || { cat tool.log; exit 1; }; }
tool domain passwordsettings set --complexity=off --min-pwd-length=1 --min-pwd-age=0 --account-lockout-threshold=5
for user in sealgate anna off must ended locked dora emil; do
    tool user create "$user" "password of $user" --mail-address="$user@corp.test"
done
tool user disable off
tool user setpassword must --newpassword="password of must" --must-change-at-next-login
tool user setexpiry ended --days=-1
for group in writers staff prime; do tool group add "$group"; done
tool group addmembers writers anna,staff
tool group addmembers staff writers
tool group addmembers prime anna
tool user setprimarygroup anna prime

samba --foreground --no-process-group --configfile="$place/etc/smb.conf" --debug-stdout >samba.log 2>&1 &
for _ in $(seq 300); do
    if (: </dev/tcp/127.0.0.1/636) 2>/dev/null; then break; fi
    sleep 0.1
done
cd "$OLDPWD"
"$@"
