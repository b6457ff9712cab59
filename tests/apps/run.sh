#!/usr/bin/env bash
# Third-party applications behind the gateway with their presets: DokuWiki (Debian's package), JupyterLab
# and Radicale. A user signs in, each application must show the user's name, and each is attacked with
# forged headers and with paths that it interprets differently. In addition, cadaver (Debian's package)
# accesses files of WsgiDAV with an application password.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
tests/clients/need.sh node curl softhsm2-util php apt-get dpkg cadaver

. tests/support/provider.sh
cargo build --locked --quiet --bin sealgate

python_environment apps tests/apps/requirements.txt
. tests/apps/dokuwiki.sh
unpack_dokuwiki

begin apps
read -r port admin wiki lab calendar files < <(node tests/support/free_ports.mjs 6)
configure "$port" "$admin" <<END
[[app]]
name = "wiki"
host = "wiki.localhost"
upstreams = ["http://127.0.0.1:$wiki"]
preset = "dokuwiki"
[[app.route]]
path = "/"
access = "signed_in"
[[app.route]]
path = "/lib/"
access = "public"

[[app]]
name = "lab"
host = "lab.localhost"
upstreams = ["http://127.0.0.1:$lab"]
preset = "jupyterlab"
[[app.route]]
path = "/"
access = "signed_in"
path_characters = [";", "%2F"]
[[app.route]]
path = "/api/contents/private/"
access = "signed_in"
groups = ["owners"]

[[app]]
name = "calendar"
host = "calendar.localhost"
upstreams = ["http://127.0.0.1:$calendar"]
preset = "radicale"
[[app.route]]
path = "/"
access = "signed_in"

[[app]]
name = "files"
host = "files.localhost"
upstreams = ["http://127.0.0.1:$files"]
identity_headers = { Remote-User = "username" }
[[app.route]]
path = "/"
access = "signed_in"
app_passwords = true
[[app.route]]
path = "/private/"
access = "signed_in"
groups = ["owners"]
app_passwords = true
END

site=$work/dokuwiki
make_wiki "$site" authsealgate
mkdir "$site/lib/plugins/authsealgate"
cp conf/apps/dokuwiki-auth.php "$site/lib/plugins/authsealgate/auth.php"
php -d display_errors=0 -S "127.0.0.1:$wiki" -t "$site" >"$work/wiki.log" 2>&1 &
pids+=($!)

mkdir -p "$work/notebooks/private" "$work/jupyter"
echo "data with a semicolon" >"$work/notebooks/a;b.txt"
echo "for owners" >"$work/notebooks/private/secret.txt"
HOME=$work/jupyter JUPYTER_CONFIG_DIR=$work/jupyter "$venv/bin/jupyter-lab" --config="$PWD/conf/apps/jupyter_server_config.py" \
    --no-browser --ip=127.0.0.1 --port="$lab" --ServerApp.port_retries=0 --allow-root \
    --ServerApp.root_dir="$work/notebooks" >"$work/lab.log" 2>&1 &
pids+=($!)

"$venv/bin/python" -m radicale --config "" --server-hosts="127.0.0.1:$calendar" --auth-type=http_x_remote_user \
    --rights-type=owner_only --storage-filesystem-folder="$work/collections" >"$work/calendar.log" 2>&1 &
pids+=($!)

mkdir -p "$work/files/private" "$work/program"
echo "for owners" >"$work/files/private/secret.txt"
cat >"$work/wsgidav.yaml" <<END
host: 127.0.0.1
port: $files
provider_mapping: { "/": "$work/files" }
# The gateway has authenticated the user.
simple_dc: { user_mapping: { "*": true } }
http_authenticator: { trusted_auth_header: HTTP_REMOTE_USER }
END
"$venv/bin/wsgidav" --config="$work/wsgidav.yaml" --server=cheroot >"$work/files.log" 2>&1 &
pids+=($!)

sealgate key generate >/dev/null
export EMAIL=anna@example.test USERNAME=anna PASSWORD="correct horse battery staple" NAME="Anna Şahin"
sealgate user add "$EMAIL" --username "$USERNAME" --name "$NAME" --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
serve
export PORT="$port" WIKI="http://127.0.0.1:$wiki" LAB="http://127.0.0.1:$lab" CALENDAR="http://127.0.0.1:$calendar"
export FILES="http://127.0.0.1:$files" FILES_ROOT="$work/files" PROGRAM_HOME="$work/program"
timeout --kill-after 10 180 node tests/apps/test.mjs || {
    echo "tests/apps failed (exit code $?; 124 means that it took too long)"
    for log in wiki lab calendar files; do echo "--- log of $log"; tail -n 20 "$work/$log.log"; done
    exit 1
}
