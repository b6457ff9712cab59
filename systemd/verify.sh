#!/bin/sh
# Checks the units and the two snippets with systemd's own tools, on a machine where nothing is installed and systemd need
# not run.
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

# The unit: the program that it starts need not be there.
sed -E 's#^(ExecStart|ExecReload)=/usr/bin/sealgate #\1=/bin/true #' "$here/sealgate.service" >"$root/sealgate.service"
cp "$here/sealgate.socket" "$root/sealgate.socket"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$root/sealgate.service" "$root/sealgate.socket" 2>&1) || {
    echo "$said" >&2
    exit 1
}
# Unknown settings are warnings to systemd and mistakes to us.
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi

# How much the service could do if it were taken over, in tenths; it was 17.
systemd-analyze security --offline=true --threshold=20 --no-pager "$here/sealgate.service" >"$root/security" 2>&1 || {
    cat "$root/security" >&2
    exit 1
}

# The user, and then the modes, in a root of its own.
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
echo "systemd: the units and the snippets are sound"
