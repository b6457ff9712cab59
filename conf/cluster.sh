#!/usr/bin/env bash
# Starts a cluster on this machine: a PostgreSQL primary with a synchronous standby, three nodes with a
# SoftHSM token each, HAProxy in front of them, and the sample application. State is in ./run-cluster/ and
# in the databases' directory, which is printed; delete both to start over.
#
# PORT=8080: HAProxy's public port. The other ports are derived from it.
# SEALGATE=FILE: the program to run; by default it is built.
# MODULE=FILE: the PKCS#11 module that accesses SoftHSM's tokens.
# EXTRA=FILE: additional sections of each node's configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077

port=${PORT:-8080}
app_port=$((port + 1))
primary_port=$((port + 21)) standby_port=$((port + 22))
run=${RUN:-run-cluster}
nodes=(1 2 3)
node_port() { echo $((port + 10 + $1)); }
admin_port() { echo $((port + 1030 + $1)); }

for taken in "$port" "$app_port" "$primary_port" "$standby_port" "$(node_port 1)" "$(node_port 2)" "$(node_port 3)"; do
    if (exec 3<>"/dev/tcp/127.0.0.1/$taken") 2>/dev/null; then
        echo "port $taken of this machine is taken (ss -ltnp shows by whom); choose others: make run-cluster PORT=$((port + 1000))" >&2
        exit 1
    fi
done

.ci/install cluster
sealgate=${SEALGATE:-target/debug/sealgate}
if [ -z "${SEALGATE:-}" ]; then
    [ -x "$sealgate" ] || echo "building a debug build; the first time takes 3 to 10 minutes and 2 GB of disk"
    ${CARGO:-cargo} build --locked --bin sealgate
fi
mkdir -p "$run"
run=$(realpath "$run")
sealgate=$(realpath "$sealgate")
haproxy=$(PATH=$PATH:/usr/sbin:${CARGO_TARGET_DIR:-target}/tools/bin command -v haproxy)
[ "$run/legacy" -nt examples/legacy.rs ] || rustc --edition 2024 -O -o "$run/legacy" examples/legacy.rs

# PostgreSQL does not run as root. For root, the databases belong to the package's user, in a separate
# directory.
database=$run/database
as=()
if [ "$(id -u)" = 0 ]; then
    database=/var/lib/postgresql/sealgate-cluster-$port
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
postgres=$(find /usr/lib/postgresql -name pg_ctl -type f | sort -V | tail -1)
bin=$(dirname "$postgres")
"${as[@]}" mkdir -p "$database"
# `make clean` deletes the databases that this file names.
grep -qxF "$database" "$run/databases" 2>/dev/null || echo "$database" >>"$run/databases"

children=() databases=()
# Stop the nodes first, because their last writes need the databases. The databases do not receive the
# SIGINT of Ctrl-C.
leave() {
    kill "${children[@]}" 2>/dev/null || true
    wait "${children[@]}" 2>/dev/null || true
    # Stop the primary before the standby, which it would otherwise wait for.
    for server in "${databases[@]}"; do
        kill -INT "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
}
trap leave EXIT
trap 'exit 130' INT TERM

server() { # NAME PORT SETTING…
    local name=$1 at=$2
    shift 2
    (cd / && exec setsid "${as[@]}" "$bin/postgres" -D "$database/$name" -c port="$at" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c shared_buffers=64MB -c max_locks_per_transaction=128 "$@" >>"$run/$name.log" 2>&1) &
    databases+=($!)
    until "$bin/pg_isready" -q -h 127.0.0.1 -p "$at"; do
        kill -0 $! 2>/dev/null || { tail -5 "$run/$name.log" >&2; exit 1; }
        sleep 0.1
    done
}

# For demonstrations on this machine only: every local user may use the database.
if [ ! -e "$database/primary/PG_VERSION" ]; then
    echo "making two databases in $database"
    (cd / && "${as[@]}" "$bin/initdb" --auth=trust --username=sealgate --encoding=UTF8 --locale=C -D "$database/primary" >/dev/null)
fi
server primary "$primary_port"
url="postgres://sealgate@127.0.0.1:$primary_port,127.0.0.1:$standby_port/postgres"
if [ ! -e "$database/standby/PG_VERSION" ]; then
    (cd / && "${as[@]}" "$bin/pg_basebackup" -R --checkpoint=fast -D "$database/standby" \
        -d "host=127.0.0.1 port=$primary_port user=sealgate application_name=standby")
fi
server standby "$standby_port"
sql() { "$bin/psql" -q -At -h 127.0.0.1 -p "$primary_port" -U sealgate postgres -c "$1"; }
sql "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby)'"
sql "SELECT pg_reload_conf()" >/dev/null

if [ -e "$run/hsm" ]; then
    echo "$run is of a version in which the nodes shared one token; delete it and $database" >&2
    exit 1
fi
printf '%s\n' "$url" >"$run/database-url"

for node in "${nodes[@]}"; do
    hsm/init-token.sh "$run/node-$node/hsm" sealgate >/dev/null
    cat >"$run/node-$node/sealgate.toml" <<END
issuer = "http://localhost:$port"
[server]
listen = ["127.0.0.1:$(node_port "$node")"]
trusted_proxies = ["127.0.0.1"]
[admin]
listen = "127.0.0.1:$(admin_port "$node")"
socket = "$run/node-$node/admin.sock"
[hsm]
module = "${MODULE:-/usr/lib/softhsm/libsofthsm2.so}"
token_label = "sealgate"
pin_file = "$run/node-$node/hsm/pin"
shared = false
[store]
engine = "postgres"
url_file = "$run/database-url"
[cluster]
node = "id-$node"
[console]
enabled = true
[[app]]
name = "legacy"
host = "app.localhost:$port"
upstreams = ["http://127.0.0.1:$app_port"]
[[app.route]]
path = "/public/"
access = "public"
[[app.route]]
path = "/api/"
access = "bearer"
scopes = ["profile"]
[[app.route]]
path = "/"
access = "signed_in"
${EXTRA:+$(cat "$EXTRA")}
END
done

# Runs a command with the node's configuration and token.
on() { # NODE COMMAND…
    local own=$run/node-$1
    shift
    SOFTHSM2_CONF=$own/hsm/softhsm2.conf "$sealgate" "$@" --config "$own/sealgate.toml"
}
member() { grep -o "\"$1\": *\"[^\"]*\"" | head -1 | cut -d'"' -f4; }
has_key() { # NODE
    [ -e "$run/node-$1/key" ] || on "$1" key generate >/dev/null
    touch "$run/node-$1/key"
}
serve() { # NODE
    (SOFTHSM2_CONF=$run/node-$1/hsm/softhsm2.conf exec "$sealgate" serve --config "$run/node-$1/sealgate.toml") >>"$run/node-$1/log" 2>&1 &
    children+=($!)
    echo $! >"$run/node-$1/pid"
    until curl -fs -o /dev/null "http://127.0.0.1:$(admin_port "$1")/readyz"; do
        kill -0 $! 2>/dev/null || { tail -5 "$run/node-$1/log" >&2; exit 1; }
        sleep 0.1
    done
}

on 1 store init >/dev/null
has_key 1
if [ ! -e "$run/password" ]; then
    openssl rand -base64 12 >"$run/password.new"
    on 1 user add demo@example.com --name "Demo Şahin" --email-verified --role admin \
        --group staff --password-stdin <"$run/password.new" >/dev/null
    mv "$run/password.new" "$run/password"
fi

cat >"$run/haproxy.cfg" <<END
global
    log stderr format raw local0 notice
defaults
    mode http
    timeout connect 2s
    timeout client 1m
    timeout server 1m
    option forwardfor
    option redispatch
    retries 2
frontend public
    bind 127.0.0.1:$port
    # Nodes that are not ready still answer public routes, discovery and the key set, and 503 for the rest.
    use_backend unready if { nbsrv(nodes) eq 0 }
    default_backend nodes
backend nodes
    option httpchk GET /readyz
$(for node in "${nodes[@]}"; do
    echo "    server id-$node 127.0.0.1:$(node_port "$node") check port $(admin_port "$node") inter 500ms fall 2 rise 1"
done)
backend unready
$(for node in "${nodes[@]}"; do echo "    server id-$node 127.0.0.1:$(node_port "$node")"; done)
END

"$run/legacy" "127.0.0.1:$app_port" &
children+=($!)
serve 1
# The first node may have rotated its key. A node that requests admission trusts the key of the admitting
# node.
for node in "${nodes[@]:1}"; do
    if [ ! -e "$run/node-$node/admitted" ]; then
        echo "admitting node $node by the fingerprints of its keys"
        has_key "$node"
        # The first node's entry is complete shortly after its start.
        tries=0
        until trusted=$(on 1 key list --json | member kid) && asked=$(on "$node" node request --trust="$trusted" --json 2>&1); do
            [ $((tries += 1)) -lt 20 ] || { echo "$asked" >&2; exit 1; }
            sleep 0.5
        done
        key=$(member key <<<"$asked")
        on 1 node admit "id-$node" --key="$key" --enrolment="$(member enrolment <<<"$asked")" >/dev/null
        # No client has cached a key set yet, so the key need not be published for a day first.
        on 1 key activate --early "$key" >/dev/null
        touch "$run/node-$node/admitted"
    fi
    serve "$node"
done
"$haproxy" -f "$run/haproxy.cfg" >>"$run/haproxy.log" 2>&1 &
children+=($!)
until curl -fs -o /dev/null "http://localhost:$port/.well-known/openid-configuration"; do
    kill -0 $! 2>/dev/null || { echo "HAProxy ended:" >&2; tail -5 "$run/haproxy.log" >&2; exit 1; }
    sleep 0.1
done

cat <<END

  application    http://app.localhost:$port/     (public part: /public/, bearer tokens only: /api/)
  provider       http://localhost:$port          (discovery: /.well-known/openid-configuration)
  your account   http://localhost:$port/account
  the console    http://localhost:$port/console

  user           demo@example.com
  password       $(cat "$run/password")
                 an administrator, in the group "staff"

  nodes          $(for node in "${nodes[@]}"; do printf '127.0.0.1:%s  ' "$(node_port "$node")"; done)
  logs           $run/node-N/log, $run/haproxy.log
  metrics        $(for node in "${nodes[@]}"; do printf '127.0.0.1:%s  ' "$(admin_port "$node")"; done)
  databases      127.0.0.1:$primary_port (primary)  127.0.0.1:$standby_port (standby), in $database

  Next:
    sign in                         http://app.localhost:$port/
    list the nodes                  SOFTHSM2_CONF=$run/node-1/hsm/softhsm2.conf $sealgate node list --config $run/node-1/sealgate.toml
    stop a node and stay signed in  kill \$(cat $run/node-2/pid)
    stop the primary database and   kill -INT ${databases[0]}
    promote the standby             $bin/psql -h 127.0.0.1 -p $standby_port -U sealgate postgres -c "SELECT pg_promote()"
    call /api/ with a token         register a client in the console, then
                                    curl -H "Authorization: Bearer TOKEN" http://app.localhost:$port/api/

  Stop with Ctrl-C. The next start continues with the same users. To start over, which a promoted standby
  requires, delete $run and $database.

END
wait
