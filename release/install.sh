#!/usr/bin/env bash
# Installs an existing build below ROOT: the program, units, man pages, completions, documentation and examples. Used by
# `make install` and by the Debian package.
#
#   release/install.sh BINARY DOCUMENTS ROOT [PREFIX] [UNITS] [ZSH]
#
# DOCUMENTS is the directory that `sealgate documents` wrote to. PREFIX is /usr by default. UNITS and ZSH are the
# directories for systemd's units and for zsh's completions; other distributions than Debian have the defaults.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1 documents=$2 root=$3 prefix=${4:-/usr}
units=$root${5:-$prefix/lib/systemd/system}
zsh=$root${6:-$prefix/share/zsh/site-functions}
share=$root$prefix/share
doc=$(realpath -m "$share/doc/sealgate")

install -D -m 0755 "$binary" "$root$prefix/bin/sealgate"
install -D -m 0755 systemd/sealgate_do "$root$prefix/sbin/sealgate_do"
install -D -m 0644 -t "$units" systemd/sealgate.service systemd/sealgate.socket
install -D -m 0644 systemd/sysusers.conf "$root$prefix/lib/sysusers.d/sealgate.conf"
install -D -m 0644 systemd/tmpfiles.conf "$root$prefix/lib/tmpfiles.d/sealgate.conf"
# The files contain the paths of the package.
if [ "$prefix" != /usr ]; then
    sed -i "s,/usr/\(bin\|sbin\|share/doc\)/sealgate,$prefix/\1/sealgate,g" "$units"/sealgate.* "$root$prefix/sbin/sealgate_do"
fi
install -D -m 0644 -t "$share/man/man1" "$documents"/man/*.1
install -D -m 0644 -t "$share/man/man8" systemd/sealgate_do.8
install -D -m 0644 "$documents/completions/sealgate.bash" "$share/bash-completion/completions/sealgate"
install -D -m 0644 -t "$zsh" "$documents/completions/_sealgate"
install -D -m 0644 -t "$share/fish/vendor_completions.d" "$documents/completions/sealgate.fish"
(cd docs && find . -name '*.md' -exec install -D -m 0644 {} "$doc"/{} \;)
install -D -m 0644 conf/sealgate.toml "$doc/examples/sealgate.toml"
install -D -m 0644 -t "$doc/examples/proxies" conf/proxies/*
install -D -m 0644 -t "$doc/examples/prometheus" conf/prometheus/*
install -D -m 0644 -t "$doc/examples/grafana" conf/grafana/*
install -D -m 0644 -t "$doc/examples/logins" conf/logins/*
