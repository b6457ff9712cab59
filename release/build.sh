#!/usr/bin/env bash
# make release: writes everything that a release consists of to target/release-VERSION:
#
#   sealgate                            the program, with the list of its dependencies inside (cargo auditable)
#   sealgate_VERSION_ARCHITECTURE.deb   the package
#   sealgate-VERSION.tar, …-softhsm.tar the container images
#   sealgate-VERSION-docs.tar.gz        the documentation as a site
#   sealgate-VERSION.cdx.json           the bill of materials (CycloneDX)
#   SHA256SUMS
#
# Every file has the time of the commit. The program contains no path of this machine, but Cargo derives the names of symbols
# from the path of the source directory: builds at different paths differ in the program, and so in the package and the images.
# The documentation is the same everywhere. DIFFERS=1 permits changes that are not committed, and counts of another
# compiler in release/profile.xz; --version then ends with "modified" if there are changes.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC

.ci/install deb
.ci/install release
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
modified=
if [ -n "$(git status --porcelain)" ]; then
    [ -n "${DIFFERS:-}" ] || { echo "the tree has changes that are not committed; commit them, or set DIFFERS=1" >&2; exit 1; }
    modified=" modified"
fi
release/program.sh --check || [ -n "${DIFFERS:-}" ] || exit 1
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
SEALGATE_VERSION="$version ($(git rev-parse --short=12 HEAD) $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)$modified)"
export SOURCE_DATE_EPOCH SEALGATE_VERSION

target=$PWD/target
tools=$target/tools
out=$target/release-$version
rm -rf "$out"
mkdir -p "$out"

# The program contains paths of sources, in messages of panics and of C assertions. Both compilers replace them.
home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$home=/cargo --remap-path-prefix=$PWD=/sealgate"
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$home=/cargo -ffile-prefix-map=$PWD=/sealgate"
export CARGO_INCREMENTAL=0
echo "building sealgate $SEALGATE_VERSION; this takes 5 to 20 minutes"
# The options of Cargo that cargo-auditable repeats.
export CARGO_AUDITABLE_ORIG_ARGS='{"offline":false,"locked":true,"frozen":false,"config":[]}'
PATH=$tools/bin:$PATH RUSTC_WRAPPER=$PWD/release/rustc.sh release/program.sh
install -m 0755 target/optimized/sealgate "$out/sealgate"
unset RUSTFLAGS CFLAGS

debian/build.sh "$out/sealgate" >/dev/null
cp "$target/debian"/sealgate_*.deb "$out/"

IMAGES=$out container/build.sh "$out/sealgate" >/dev/null

# The serial number of a bill is random. SOURCE_DATE_EPOCH sets its time, and removes the number.
PATH=$tools/bin:$PATH ${CARGO:-cargo} cyclonedx --quiet --format json --spec-version 1.5 --target all --override-filename "sealgate-$version.cdx" \
    --manifest-path Cargo.toml
sed "s,$PWD,/sealgate,g" "sealgate-$version.cdx.json" >"$out/sealgate-$version.cdx.json"
rm "sealgate-$version.cdx.json"
find src -name "sealgate-$version.cdx.json" -delete

make --silent docs >/dev/null
tar -C "$target" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
    --transform "s,^book,sealgate-$version-docs," -cf - book | gzip --no-name -9 >"$out/sealgate-$version-docs.tar.gz"

(cd "$out" && sha256sum -- * >SHA256SUMS)
(cd "$out" && ls -l)
echo "target/release-$version"
