#!/bin/sh
# Starts PostgreSQL and Redis in a temporary folder on a free loopback address, runs a command with
# FERRITE_TEST_POSTGRES_URL and FERRITE_TEST_REDIS_URL, then stops and removes the servers, however
# the command ends.
#
#   tests/servers.sh cargo test
#
# fsync is off: tests kill Ferrite's processes, never the machine. Without redis-server,
# FERRITE_TEST_REDIS_URL stays unset.
#
# Temporary folders are in memory (/dev/shm) if it has room and allows executables, because most
# tests only wait for the disk. Tests of crashes and full disks use FERRITE_TEST_DISK, a folder on a
# disk. An existing TMPDIR is kept.
set -eu

[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT]..." >&2; exit 2; }

program() {
    for candidate in "$(command -v "$1" 2>/dev/null)" /usr/lib/postgresql/*/bin/"$1" /usr/local/pgsql/bin/"$1"; do
        [ -x "$candidate" ] && { echo "$candidate"; return; }
    done
    echo "$0: the program $1 is not installed" >&2
    exit 1
}

# Whether a file system has 6 GiB of room, the machine as much free memory, and executables may run
# from there.
has_room() {
    [ -d "$1" ] && [ -w "$1" ] || return 1
    [ "$(df -Pk "$1" | awk 'NR == 2 { print $4 }')" -ge 6291456 ] || return 1
    [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge 6291456 ] || return 1
    probe=$(mktemp "$1/ferrite-probe.XXXXXX") || return 1
    printf '#!/bin/sh\n' >"$probe" && chmod 700 "$probe" && "$probe" 2>/dev/null
    runs=$?
    rm -f "$probe"
    return "$runs"
}

export FERRITE_TEST_DISK="${TMPDIR:-/tmp}"
if [ -z "${TMPDIR:-}" ] && has_room /dev/shm; then
    export TMPDIR=/dev/shm
fi

initdb=$(program initdb)
postgres=$(program postgres)

# PostgreSQL refuses to run as root.
as=""
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as="setpriv --reuid=$user --regid=$(id -gn "$user") --clear-groups"
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/ferrite-servers.XXXXXX")
postgres_pid="" redis_pid=""
finish() {
    trap - EXIT INT TERM HUP
    [ -z "$postgres_pid" ] || kill -QUIT "$postgres_pid" 2>/dev/null || true
    [ -z "$redis_pid" ] || kill -KILL "$redis_pid" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
trap 'finish; exit 129' HUP
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM

# All of 127.0.0.0/8 is local, and the process id makes the address unique.
address=127.$(( $$ / 60000 % 100 + 100 )).$(( $$ / 240 % 250 + 1 )).$(( $$ % 240 + 10 ))

chmod 755 "$folder"
mkdir "$folder/postgres" "$folder/redis"
[ -z "$as" ] || chown "$user" "$folder/postgres"
cd "$folder"
$as "$initdb" -D "$folder/postgres/data" -A trust -U ferrite -E UTF8 --locale=C --no-sync >"$folder/initdb.log" 2>&1 ||
    { cat "$folder/initdb.log" >&2; exit 1; }
$as "$postgres" -D "$folder/postgres/data" -c listen_addresses="$address" -c port=5432 -c unix_socket_directories= \
    -c max_connections=500 -c shared_buffers=64MB -c fsync=off -c full_page_writes=off \
    >"$folder/postgres.log" 2>&1 </dev/null &
postgres_pid=$!
if command -v redis-server >/dev/null 2>&1; then
    redis-server --bind "$address" --port 6379 --save "" --appendonly no --dir "$folder/redis" --protected-mode no \
        >"$folder/redis.log" 2>&1 </dev/null &
    redis_pid=$!
    export FERRITE_TEST_REDIS_URL="redis://$address:6379"
else
    echo "$0: redis-server is not installed: tests that need it will say so" >&2
fi

waited=0
until grep -q "ready to accept connections" "$folder/postgres.log" 2>/dev/null; do
    kill -0 "$postgres_pid" 2>/dev/null || { cat "$folder/postgres.log" >&2; exit 1; }
    waited=$((waited + 1))
    [ "$waited" -lt 600 ] || { echo "$0: PostgreSQL does not start" >&2; exit 1; }
    sleep 0.1
done
export FERRITE_TEST_POSTGRES_URL="postgres://ferrite@$address:5432/postgres"

cd "$OLDPWD"
status=0
"$@" || status=$?
exit "$status"
