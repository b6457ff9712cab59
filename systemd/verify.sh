#!/bin/sh
# Checks the units, sysusers.conf and tmpfiles.conf with systemd's own tools. Neither Sealgate nor a
# running systemd is necessary.
set -eu

for tool in systemd-analyze systemd-sysusers systemd-tmpfiles; do
    if ! command -v "$tool" >/dev/null; then
        echo "$0: $tool is missing; run: apt-get install systemd" >&2
        exit 1
    fi
done

here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Check the unit with a program that exists.
sed -E 's#^(ExecStart|ExecReload)=/usr/bin/sealgate #\1=/bin/true #' "$here/sealgate.service" >"$root/sealgate.service"
cp "$here/sealgate.socket" "$root/sealgate.socket"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$root/sealgate.service" "$root/sealgate.socket" 2>&1) || {
    echo "$said" >&2
    exit 1
}
# systemd only warns of unknown settings.
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi

# The exposure of a compromised service, in tenths; it was 17.
systemd-analyze security --offline=true --threshold=20 --no-pager "$here/sealgate.service" >"$root/security" 2>&1 || {
    cat "$root/security" >&2
    exit 1
}

# Create the user and the modes in a separate root directory.
mkdir -p "$root/etc/sealgate/tls"
touch "$root/etc/sealgate/sealgate.toml" "$root/etc/sealgate/pkcs11-pin" "$root/etc/sealgate/tls/key.pem"
said=$(systemd-sysusers --root="$root" "$here/sysusers.conf" 2>&1) || {
    echo "$said" >&2
    exit 1
}
grep -q '^sealgate:' "$root/etc/passwd"
if [ "$(id -u)" -eq 0 ]; then
    systemd-tmpfiles --root="$root" --create "$here/tmpfiles.conf"
    [ "$(stat -c %a "$root/etc/sealgate/pkcs11-pin")" = 600 ]
    [ "$(stat -c %a "$root/etc/sealgate/tls/key.pem")" = 640 ]
fi
echo "systemd: the units, sysusers.conf and tmpfiles.conf are valid"
