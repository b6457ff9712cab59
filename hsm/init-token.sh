#!/bin/sh
# Creates a SoftHSM token for development, unless it exists.
#
#   hsm/init-token.sh DIRECTORY [LABEL]
#
# writes DIRECTORY/softhsm2.conf (name it in SOFTHSM2_CONF), DIRECTORY/tokens, and the two PINs, each in a file that only
# its owner can read: DIRECTORY/pin (the user's, for hsm.pin_file) and DIRECTORY/so-pin (the security officer's).
#
# Not for production: softhsm2-util takes the PINs as arguments, which other users of the machine can read
# while it runs, and SoftHSM stores keys in files.
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 DIRECTORY [LABEL]" >&2
    exit 2
fi
label=${2:-sealgate}
here=$(cd "$(dirname "$0")" && pwd)
umask 077
mkdir -p "$1/tokens"
directory=$(cd "$1" && pwd)

# A random number of eight digits, from the kernel.
random_pin() {
    od -An -N8 -tu8 /dev/urandom | awk '{ printf "%08d\n", substr($1, length($1) - 7) }'
}

export SOFTHSM2_CONF="$directory/softhsm2.conf"
if [ ! -e "$SOFTHSM2_CONF" ]; then
    # awk, because a path may contain any character.
    DIRECTORY=$directory awk '
        { at = index($0, "@DIRECTORY@")
          if (at) $0 = substr($0, 1, at - 1) ENVIRON["DIRECTORY"] substr($0, at + 11)
          print }' "$here/softhsm2.conf" >"$SOFTHSM2_CONF"
fi
for secret in pin so-pin; do
    if [ ! -e "$directory/$secret" ]; then
        random_pin >"$directory/$secret.new"
        mv "$directory/$secret.new" "$directory/$secret"
    fi
done

# The list shows labels padded to 32 characters.
if softhsm2-util --show-slots | sed -n 's/^ *Label: *//p' | sed 's/ *$//' | grep -qxF -e "$label"; then
    echo "token \"$label\" exists already"
else
    softhsm2-util --init-token --free --label "$label" \
        --pin "$(cat "$directory/pin")" --so-pin "$(cat "$directory/so-pin")"
fi
