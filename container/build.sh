#!/usr/bin/env bash
# make image: writes two container images to target/image, without a registry, a daemon or root:
#
#   sealgate-VERSION.tar           the program, for a token outside of the container
#   sealgate-VERSION-softhsm.tar   the same with SoftHSM
#
# Each file is an OCI image layout with Docker's manifest.json, so `docker load`, `podman load` and
# `skopeo copy oci-archive:FILE` read it. The program comes from release/program.sh, or from the
# argument. The same program and Debian packages give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C

.ci/install image
binary=${1:-target/optimized/sealgate}
if [ $# -eq 0 ]; then
    echo "building the packaged binary; this takes 5 to 20 minutes the first time"
    release/program.sh
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
# All files have the time of the commit.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
images=${IMAGES:-target/image}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$images"

# add ROOT FILE: copies a file to the same path below ROOT, with its licence and the libraries that it is linked with.
add() {
    local file
    for file in "$2" $(ldd "$2" | grep -o '/[^ ]*'); do
        install -D -m "$(stat -L -c %a "$file")" "$file" "$1$file"
        add_licence "$1" "$file"
    done
}

# add_licence ROOT FILE: copies the licence of the Debian package that FILE belongs to. The package may list a path
# without the /usr that the file has since /lib became a link.
add_licence() {
    local file package
    file=$(realpath "$2")
    package=$(dpkg-query -S "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1 || true)
    install -D -m 0644 -t "$1/usr/share/doc/$package" "/usr/share/doc/$package/copyright"
}

tarred() { tar --create --sort=name --format=gnu --numeric-owner --mtime="@$epoch" --no-recursion --files-from=- "$@"; }

# blob: stores standard input in the layout; prints its digest and size.
blob() {
    local digest
    cat >"$layout/blob"
    digest=$(sha256sum "$layout/blob" | cut -d' ' -f1)
    mv "$layout/blob" "$layout/blobs/sha256/$digest"
    echo "$digest $(stat -c %s "$layout/blobs/sha256/$digest")"
}

# image ROOT TAG: writes one image.
image() {
    local root=$1 tag=$2 layer layer_size config config_size manifest manifest_size contents
    layout=$work/layout-$tag
    mkdir -p "$layout/blobs/sha256"

    # The directories that the program writes to belong to its user; new volumes get that owner.
    (cd "$root" && find . -mindepth 1 | sed 's,^\./,,' | sort | tarred --owner=0 --group=0) >"$work/layer.tar"
    mkdir -p "$work/state"/{etc,var/lib}/sealgate
    chmod 0700 "$work/state"/{etc,var/lib}/sealgate
    (cd "$work/state" && printf '%s\n' etc/sealgate var/lib/sealgate | tarred --owner=65532 --group=65532) >"$work/state.tar"
    tar --concatenate --file="$work/layer.tar" "$work/state.tar"
    contents=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
    read -r layer layer_size < <(gzip --no-name -9 <"$work/layer.tar" | blob)

    read -r config config_size < <(blob <<END
{"created":"$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)","architecture":"$architecture","os":"linux","config":{
"User":"65532:65532","WorkingDir":"/var/lib/sealgate","Entrypoint":["/usr/bin/sealgate"],"Cmd":["serve"],
"Env":["PATH=/usr/bin"],"ExposedPorts":{"8080/tcp":{},"8443/tcp":{}},"StopSignal":"SIGTERM",
"Volumes":{"/etc/sealgate":{},"/var/lib/sealgate":{}},
"Healthcheck":{"Test":["CMD","/usr/bin/sealgate","status"],"Interval":30000000000,"Timeout":5000000000,"StartPeriod":30000000000},
"Labels":{"org.opencontainers.image.title":"sealgate","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"Apache-2.0",
"org.opencontainers.image.description":"Identity-aware reverse proxy and OpenID Connect provider"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$contents"]},
"history":[{"created_by":"container/build.sh"}]}
END
    )
    read -r manifest manifest_size < <(blob <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
END
    )
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    cat >"$layout/index.json" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[
{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$manifest_size,
"annotations":{"io.containerd.image.name":"docker.io/library/sealgate:$tag","org.opencontainers.image.ref.name":"$tag"}}]}
END
    cat >"$layout/manifest.json" <<END
[{"Config":"blobs/sha256/$config","RepoTags":["sealgate:$tag"],"Layers":["blobs/sha256/$layer"]}]
END
    (cd "$layout" && find . -mindepth 1 | sed 's,^\./,,' | sort | tarred --owner=0 --group=0) >"$images/sealgate-$tag.tar"
    echo "$images/sealgate-$tag.tar sealgate:$tag sha256:$manifest"
}

root=$work/root
install -D -m 0755 "$binary" "$root/usr/bin/sealgate"
for library in $(ldd "$binary" | grep -o '/[^ ]*'); do add "$root" "$library"; done
install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
echo 'sealgate:x:65532:65532:Sealgate:/var/lib/sealgate:/usr/sbin/nologin' | install -D -m 0644 /dev/stdin "$root/etc/passwd"
echo 'sealgate:x:65532:' | install -m 0644 /dev/stdin "$root/etc/group"
echo 'hosts: files dns' | install -m 0644 /dev/stdin "$root/etc/nsswitch.conf"
install -D -m 0644 -t "$root/usr/share/doc/sealgate" LICENSE conf/sealgate.toml
mkdir -m 1777 "$root/tmp"
image "$root" "$version"

add "$root" /usr/lib/softhsm/libsofthsm2.so
image "$root" "$version-softhsm"
