# Sourced by the scripts of tests/apps in the root directory: DokuWiki of Debian's package.

# unpack_dokuwiki: unpacks the packages without installing them, because they depend on a web server. Sets
# $debian.
unpack_dokuwiki() {
    debian=$PWD/target/apps-dokuwiki
    if [ ! -e "$debian/unpacked" ]; then
        rm -rf "$debian"
        mkdir -p "$debian"
        (cd "$debian" && apt-get download -q dokuwiki libphp-simplepie php-geshi php-phpseclib >/dev/null)
        for package in "$debian"/*.deb; do dpkg -x "$package" "$debian/root"; done
        touch "$debian/unpacked"
    fi
}

# make_wiki DIRECTORY AUTHTYPE: a copy of the packages' files with its own settings, for signed-in users.
make_wiki() {
    cp -r "$debian/root/usr/share/dokuwiki" "$1"
    rm -rf "$1/lib/plugins" "$1/lib/tpl" "$1/.htaccess"
    cp -r "$debian/root/var/lib/dokuwiki/lib/." "$1/lib/"
    cp -r "$debian/root/var/lib/dokuwiki/data" "$1/data"
    mkdir "$1/conf"
    cp -r "$debian/root/etc/dokuwiki/." "$1/conf/"
    # Remove links that are only valid in an installation.
    find "$1/conf" -xtype l -delete
    grep -rlZ "'/usr/share/php" "$1" --include='*.php' \
        | xargs -0 sed -i "s#'/usr/share/php#'$debian/root/usr/share/php#g"
    # The class loader finds phpseclib; its other start file is not needed.
    sed -i '/phpseclib\/bootstrap/d' "$1"/vendor/composer/autoload_*.php
    cat >"$1/inc/preload.php" <<'END'
<?php
define('DOKU_CONF', __DIR__ . '/../conf/');
define('DOKU_MAIN_CONF', DOKU_CONF);
define('DOKU_FARM', false);
END
    cat >"$1/conf/local.php" <<END
<?php
\$conf['savedir'] = '$1/data';
\$conf['useacl'] = 1;
\$conf['authtype'] = '$2';
\$conf['title'] = 'Wiki';
END
    printf '*\t@ALL\t0\n*\t@user\t8\n' >"$1/conf/acl.auth.php"
    mkdir -p "$1/data/pages"
    echo "The page that people see." >"$1/data/pages/start.txt"
}
