#!/usr/bin/env bash
# Tests `make run`, the first command of the README: it must start, accept the user that it prints,
# show the application behind the gateway, and stop all its processes at Ctrl-C.
#
#   tests/demo/run.sh [PROGRAM]
#
# PROGRAM is the path that `make run` must print, target/debug/sealgate by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-target/debug/sealgate}
for tool in node make setsid; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: run .ci/install run" >&2; exit 1; }
done
# The program must exist, because the time to start is limited. Unset variables that select a
# program.
unset SEALGATE RUN PORT APP_PORT ADMIN_PORT MAKEFLAGS MAKELEVEL MFLAGS
[ -x "$program" ] || { echo "$program is not built" >&2; exit 1; }

mkdir -p target
work=$(mktemp -d "$PWD/target/demo.XXXXXX")
group=
end() {
    status=$?
    [ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null || true
    [ "$status" = 0 ] || { echo "--- what make run said"; tail -n 60 "$work/said" "$work/run/log" 2>/dev/null || true; }
    rm -rf "$work"
    exit "$status"
}
trap end EXIT

read -r port app_port admin_port < <(node tests/support/free_ports.mjs 3)
# A separate process group, which Ctrl-C in a terminal interrupts as a whole.
RUN=$work/run APP_PORT=$app_port ADMIN_PORT=$admin_port setsid --wait make run PORT="$port" >"$work/said" 2>&1 </dev/null &
make=$!
group() { ps -o pgid= --ppid "$make" | tr -d ' ' | head -n 1; }
for _ in $(seq 100); do group=$(group) && [ -n "$group" ] && break; sleep 0.1; done
[ -n "$group" ] || { echo "make run did not start" >&2; exit 1; }

timeout --kill-after 5 240 node tests/demo/test.mjs "$work/said" "$port" "$program" "$make"

kill -INT -- "-$group"
for _ in $(seq 300); do kill -0 -- "-$group" 2>/dev/null || break; sleep 0.1; done
if kill -0 -- "-$group" 2>/dev/null; then
    echo "something goes on after Ctrl-C:" >&2
    ps -o pid,args --no-headers -g "$group" >&2
    exit 1
fi
group=
wait "$make" || true
grep -qE ' INFO sealgate::[a-z_:]+: stopped$' "$work/run/log" || { echo "the server did not stop in order" >&2; exit 1; }
echo "ok make run ($program)"
