#!/usr/bin/env bash
# make test-container: builds the images from the debug build, loads them with a program of another project
# (buildah), runs the commands of container/compose.yaml in one, and signs in to its sample application.
#
# buildah's chroot isolation needs no cgroups and no network, but it cannot make the root read-only. The test
# compares the files instead: only the volumes may change.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022

work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
    rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; for log in "$work"/*.log; do echo "== $log"; tail -n 20 "$log"; done >&2; exit 1; }
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
# free_port: a port that nothing listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# wait_for SECONDS COMMAND…: until the command succeeds.
wait_for() { local end=$((SECONDS + $1)); shift; until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done; }

strip -o "$work/sealgate" "${CARGO_TARGET_DIR:-target}/debug/sealgate"
export SOURCE_DATE_EPOCH=1700000000
IMAGES=$work/first container/build.sh "$work/sealgate"
IMAGES=$work/second container/build.sh "$work/sealgate" >"$work/second.log"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
for name in "sealgate-$version" "sealgate-$version-softhsm"; do
    cmp "$work/first/$name.tar" "$work/second/$name.tar" || fail "two builds of $name.tar differ"
done
grep -q "image: sealgate:$version-softhsm" container/compose.yaml || fail "container/compose.yaml names another version"

# Docker reads manifest.json, others the OCI layout.
container=$(buildah from "docker-archive:$work/first/sealgate-$version.tar")
[ "$(buildah run --isolation chroot "$container" -- /usr/bin/sealgate --version)" = "sealgate $version" ] || fail "the image without SoftHSM"
buildah rm "$container" >/dev/null
container=$(buildah from "oci-archive:$work/first/sealgate-$version-softhsm.tar")
root=$(buildah mount "$container")
# Removes the image's volumes. Otherwise buildah mounts volumes of its own there, which may hide the
# directories that are mounted below.
buildah config --volume /etc/sealgate- --volume /var/lib/sealgate- "$container"
[ "$(buildah inspect --format '{{.OCIv1.Config.User}}' "$container")" = 65532:65532 ] || fail "the user of the image"
snapshot() { (cd "$root" && find . -type f -printf '%p %s %T@ %m %U\n' | grep -v '^\./\(proc\|sys\|dev\|etc/resolv.conf\|etc/hostname\|etc/hosts\|run/.containerenv\)' | sort); }
snapshot >"$work/before"

mkdir -p "$work"/{configuration,state}
chown 65532:65532 "$work"/{configuration,state}
chmod 0700 "$work"/{configuration,state}
chmod 0711 "$work"
sealgate() {
    command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs run --isolation chroot \
        --volume "$work/configuration:/etc/sealgate" --volume "$work/state:/var/lib/sealgate" "$container" -- /usr/bin/sealgate "$@"
}
port=$(free_port)
app_port=$(free_port)
# The arguments of the compose file with the ports of this test. The container has this machine's network.
mapfile -t arguments < <(sed -n '/^  init:/,/^  [a-z]*:$/s/^      - //p' container/compose.yaml \
    | sed "s,localhost:8080,localhost:$port,; s,0\.0\.0\.0:8080,127.0.0.1:$port,; s,http://app:80,http://127.0.0.1:$app_port,")
[ "${arguments[0]}" = init ] || fail "container/compose.yaml has no service init"
python3 -m http.server --bind 127.0.0.1 --directory docs "$app_port" >"$work/app.log" 2>&1 &
pids+=($!)
sealgate "${arguments[@]}" >"$work/init.log" 2>&1 || fail "init"
sealgate "${arguments[@]}" >"$work/again.log" 2>&1 || fail "the second init"
cat "$work/again.log"
# The second run invites again, which ends the first link.
link=$(grep -o "http://localhost:$port/oauth/invitation[^ ]*" "$work/again.log") || fail "init printed no link"

sealgate serve >"$work/serve.log" 2>&1 &
server=$!
pids+=("$server")
wait_for 60 sealgate status >"$work/status.log" 2>&1 || fail "the health check of the image"
node tests/container/test.mjs "$link" admin@example.com "http://app.localhost:$port/" || fail "signing in"

# SIGTERM to the program itself, as a container engine sends it: the last process of buildah's chain.
program=$server
while child=$(pgrep -P "$program" | head -n 1) && [ -n "$child" ]; do program=$child; done
kill "$program"
wait "$server" || fail "the server did not end at SIGTERM"
pids=("${pids[0]}")
snapshot >"$work/after"
diff "$work/before" "$work/after" || fail "files outside of the volumes changed"
find "$work/configuration" "$work/state" ! -user 65532 | grep . && fail "files of another user in the volumes"
find "$work/state/pin" "$work/state/softhsm" -perm /077 | grep . && fail "others can read the PIN or the token"
echo "container: passed"
