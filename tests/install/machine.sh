# A Debian 12 machine that boots systemd in a container, and helpers for tests in it. Sourced by the
# scripts in this directory, which run in the root of the repository as root.
#
# Needs mmdebstrap, systemd-nspawn and Chromium. The container is a directory below target/install, with a
# loopback network only. KEEP=1 keeps it.

[ -d tests/browser/node_modules/playwright-core ] || (cd tests/browser && npm ci --silent --no-audit --no-fund)

mkdir -p target/install
# Packages for the test itself: SoftHSM, a client, an application to protect.
needs=systemd,systemd-sysv,dbus,procps,softhsm2,openssl,curl,busybox
base=target/install/base-$(echo "bookworm $needs" | sha256sum | cut -c1-12).tar
if [ ! -e "$base" ]; then
    echo "== making a Debian 12 (two minutes, once)"
    mmdebstrap --quiet --variant=apt --include="$needs" bookworm "${base%.tar}.new.tar" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
    mv "${base%.tar}.new.tar" "$base"
fi
root=$(mktemp -d "$PWD/target/install/machine.XXXXXX")
tar -C "$root" --numeric-owner -xf "$base"
machine=
leader=

end() {
    status=$?
    if [ "$status" != 0 ]; then
        echo "--- FAILED after: ${doing:-the start}"
        [ -z "$leader" ] || inside 'journalctl --no-pager -u sealgate | tail -n 30' 2>/dev/null || true
    fi
    [ -z "$leader" ] || inside 'systemctl --no-block poweroff' 2>/dev/null || true
    if [ -n "$machine" ]; then
        for _ in $(seq 100); do kill -0 "$machine" 2>/dev/null || break; sleep 0.1; done
        kill "$machine" 2>/dev/null || true
        wait "$machine" 2>/dev/null || true
    fi
    if [ -n "${KEEP:-}" ]; then echo "the machine stays in $root"; else rm -rf "$root" "$root".*; fi
    exit "$status"
}
trap end EXIT

inside() {
    nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup --root --wd -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb bash -c "cd /root; set -euo pipefail
trap 'echo \"failed: \$BASH_COMMAND\" >&2' ERR; $1"
}

boot() {
    systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --private-network --console=pipe \
        </dev/null >"$root.log" 2>&1 &
    machine=$!
    for _ in $(seq 600); do
        leader=$(pgrep -P "$machine" | head -n 1 || true)
        case "$([ -z "$leader" ] || inside 'systemctl is-system-running' 2>/dev/null || true)" in
            *running*) return ;;
            *degraded*) inside 'systemctl --failed'; break ;;
        esac
        kill -0 "$machine" 2>/dev/null || break
        sleep 0.1
    done
    cat "$root.log"
    echo "no systemd boots here: systemd-nspawn needs root and a kernel that lets it make name spaces and control groups"
    exit 1
}

# --- helpers

step() { doing=$1; echo "== $1"; }
has() { grep -qF -- "$2" <<<"$1" || { echo "expected: $2"; echo "found:    $1"; return 1; }; }
lacks() { if grep -qF -- "$2" <<<"$1"; then echo "not expected: $2"; echo "found: $1"; return 1; fi; }
same() { [ "$1" = "$2" ] || { echo "expected: $2"; echo "found:    $1"; return 1; }; }
fails() { if inside "$1" 2>&1; then echo "should have failed: $1"; return 1; fi; }

active() { inside 'sealgate_do key list' | awk '$2 == "active" { print $1 }'; }
is_up() { same "$(inside 'systemctl is-active sealgate' || true)" active; }
# Runs a script of Node.js in the network name space of the machine.
visit() { nsenter --target "$leader" --net -- node "tests/install/$@"; }
