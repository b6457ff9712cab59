#!/usr/bin/env bash
# Recipes of conf/logins with real applications: DokuWiki (Debian's package) and Django's admin. The command
# signs in with the right password, reports a wrong one, and prints no secret. Then a user opens both through the
# gateway, which signs in with a service account.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
tests/clients/need.sh node curl softhsm2-util php apt-get dpkg

. tests/support/provider.sh
. tests/apps/dokuwiki.sh
cargo build --locked --quiet --bin sealgate

python_environment logins tests/apps/logins-requirements.txt
unpack_dokuwiki

begin logins
read -r port admin django wiki < <(node tests/support/free_ports.mjs 4)
export PASSWORD='correct horse+&=%ü"'

mkdir "$work/django"
"$venv/bin/python" tests/apps/django_admin.py "$work/django" "$django" anna >"$work/django.log" 2>&1 &
pids+=($!)
make_wiki "$work/dokuwiki" authplain
php -r 'echo "anna:", password_hash(getenv("PASSWORD"), PASSWORD_BCRYPT), ":Anna:anna@example.test:user\n";' \
    >"$work/dokuwiki/conf/users.auth.php"
mkdir "$work/wiki-sessions"
php -d display_errors=0 -d session.save_path="$work/wiki-sessions" -S "127.0.0.1:$wiki" -t "$work/dokuwiki" >"$work/wiki.log" 2>&1 &
pids+=($!)

failed() {
    echo "$*" >>"$work/faults"
    for name in django wiki; do echo "--- log of $name"; tail -n 20 "$work/$name.log"; done
    exit 1
}

# try STATUS PASSWORD LINE RECIPE PORT [OPTION…]: signs in; the output must contain the line and no secret.
try() {
    local expected=$1 password=$2 line=$3 recipe=$4 port=$5 status=0
    local told
    told=$(target/debug/sealgate app test-login "conf/logins/$recipe.toml" --upstream "http://127.0.0.1:$port" \
        --username anna "${@:6}" 2>&1 <<<"$password") || status=$?
    echo "--- $recipe ${*:6}"
    echo "$told"
    [ "$status" = "$expected" ] && [[ $told == *"$line"* ]] || failed "$recipe: status $status, expected $expected: $line"
    if grep -qiE 'correct|horse|csrfmiddlewaretoken=|sessionid=' <<<"$told"; then failed "$recipe: a secret was printed"; fi
}

for place in "$django/admin/login/" "$wiki/doku.php"; do
    for _ in $(seq 100); do
        if curl -sf --max-time 5 -o "$work/page" "http://127.0.0.1:$place"; then continue 2; fi
        sleep 0.2
    done
    failed "http://127.0.0.1:$place does not answer"
done

signed_in="signed in as anna"
refused="the application reports a wrong username or password"
try 0 "$PASSWORD" "$signed_in" django-admin "$django"
try 1 "wrong" "$refused" django-admin "$django"
try 0 "$PASSWORD" "$signed_in" django-admin "$django" --host http://admin.example.test
try 1 "$PASSWORD" "no form with the password field" django-admin "$django" --host http://other.example.test
try 0 "$PASSWORD" "$signed_in" dokuwiki "$wiki"
try 1 "wrong" "$refused" dokuwiki "$wiki"
echo "recipes: ok"

# app NAME PORT RECIPE: prints the configuration of an application, with the service account anna.
app() {
    cat <<END
[[app]]
name = "$1"
host = "$1.localhost"
upstreams = ["http://127.0.0.1:$2"]
login = { recipe = "$PWD/conf/logins/$3.toml", username = "anna", password_file = "$work/app.password" }
[[app.route]]
path = "/"
access = "signed_in"
END
}
(umask 077 && echo "$PASSWORD" >"$work/app.password")
{
    printf '[log]\nfilter = "debug"\n'
    app wiki "$wiki" dokuwiki
    app django "$django" django-admin
} | configure "$port" "$admin"
export APP_PASSWORD="$PASSWORD" EMAIL=berk@example.test PASSWORD="gateway horse battery staple"
sealgate key generate >/dev/null
sealgate user add "$EMAIL" --username berk --name Berk --email-verified --password-stdin <<<"$PASSWORD" >/dev/null
serve
export PORT="$port" ADMIN="$admin" LOG="$work/log" PYTHON="$venv/bin/python" DJANGO_DATABASE="$work/django/db.sqlite3"
export WIKI_DATA="$work/dokuwiki/data" WIKI_SESSIONS="$work/wiki-sessions"
timeout --kill-after 10 300 node tests/apps/logins.mjs \
    || failed "the applications through the gateway (exit code $?; 124 means that it took too long)"
echo "applications through the gateway: ok"
