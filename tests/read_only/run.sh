#!/usr/bin/env bash
# Tests a disk that becomes read-only. Needs root with permission to mount a file as ext4; otherwise the
# test is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."

probe=$(mktemp -d)
can_mount() {
    [ "$(id -u)" = 0 ] || { echo "root is required to mount a file"; return 1; }
    truncate -s 8M "$probe/image" && mkfs.ext4 -q "$probe/image" || { echo "mkfs.ext4 does not work"; return 1; }
    mkdir "$probe/disk"
    mount -o loop "$probe/image" "$probe/disk" || { echo "no loop device can be mounted"; return 1; }
    local device
    device=$(findmnt --noheadings --output SOURCE "$probe/disk")
    [ -w "/sys/fs/ext4/${device#/dev/}/trigger_fs_error" ] || { echo "the kernel cannot simulate a disk error"; return 1; }
}
if why=$(can_mount 2>&1); then can=yes; else can=no; fi
umount --lazy "$probe/disk" 2>/dev/null || true
rm -rf "$probe"
if [ "$can" = no ]; then
    echo "tests/read_only is skipped: $why"
    exit 0
fi
${CARGO:-cargo} build --locked --workspace --example legacy
${CARGO:-cargo} test --locked --workspace --test read_only -- --ignored
