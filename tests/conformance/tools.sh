# Sourced by the scripts beside it: finds or installs what they need, by package name, into a cache
# of their own, and starts the programs under test. It must not touch anything outside the cache.
# A tool that cannot be had ends the script with 3, which means skipped.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${SESSIONLOG_CONFORMANCE_CACHE:-$root/target/conformance}
# The programs under test would refuse a setting that they do not know.
unset SESSIONLOG_CONFORMANCE_CACHE
work=$(mktemp -d)
database=
started=()
leave() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
    wait
    # The owner of a store may still write: it ends by itself.
    rm -rf "$work" "$database" 2>/dev/null || { sleep 2; rm -rf "$work" "$database"; }
}
trap leave EXIT
mkdir -p "$cache"
export NO_COLOR=1

# alone_in_cache COMMAND…: no other script changes the cache meanwhile.
alone_in_cache() {
    local lock
    exec {lock}>"$cache/.lock"
    ! command -v flock >/dev/null || flock "$lock"
    "$@"
    exec {lock}>&-
}

skip() {
    printf '%s: skipped: %s\n' "${0##*/}" "$1"
    exit 3
}

# Node 22.19 or newer on PATH: the one there is, or one from the registry.
node_new() {
    hash -r
    command -v node >/dev/null &&
        node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 19) ? 0 : 1)'
}

# npm_has PACKAGE@VERSION…: they are in the cache.
npm_has() { alone_in_cache npm_into_cache "$@"; }
npm_into_cache() {
    local wanted=("$@") missing=()
    export PATH="$cache/npm/node_modules/.bin:$PATH"
    mkdir -p "$cache/npm"
    node_new || wanted+=(node@22)
    for package in "${wanted[@]}"; do
        [ -e "$cache/npm/.has/${package//\//+}" ] || missing+=("$package")
    done
    if [ "${#missing[@]}" -gt 0 ]; then
        command -v npm >/dev/null || skip "npm is not installed"
        printf 'installing %s\n' "${missing[*]}"
        [ -e "$cache/npm/package.json" ] || echo '{"private": true}' >"$cache/npm/package.json"
        (cd "$cache/npm" && npm install --no-audit --no-fund --loglevel=error "${missing[@]}") \
            >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log"; skip "npm cannot install ${missing[*]}"; }
        mkdir -p "$cache/npm/.has"
        for package in "${missing[@]}"; do touch "$cache/npm/.has/${package//\//+}"; done
    fi
    node_new || skip "node 22.19 or newer cannot be had"
}

# pip_has PACKAGE==VERSION…: they are in the cache, and $python sees them.
pip_has() { alone_in_cache pip_into_cache "$@"; }
pip_into_cache() {
    python=$cache/python/bin/python
    [ -x "$python" ] || python3 -m venv "$cache/python" || skip "python3 cannot make an environment"
    for package in "$@"; do
        [ -e "$cache/python/.has-$package" ] && continue
        printf 'installing %s\n' "$package"
        "$python" -m pip install --quiet --disable-pip-version-check "$package" \
            >"$work/pip.log" 2>&1 || { tail -5 "$work/pip.log"; skip "pip cannot install $package"; }
        touch "$cache/python/.has-$package"
    done
}

# pip_apart PACKAGE==VERSION: it is in a directory of its own, $cache/apart/PACKAGE==VERSION, for
# PYTHONPATH: what it needs may differ from what others need.
pip_apart() { pip_has && alone_in_cache pip_into_directory "$@"; }
pip_into_directory() {
    [ -e "$cache/apart/$1/.has" ] && return
    printf 'installing %s\n' "$1"
    "$python" -m pip install --quiet --disable-pip-version-check --upgrade \
        --target "$cache/apart/$1" "$1" >"$work/pip.log" 2>&1 ||
        { tail -5 "$work/pip.log"; skip "pip cannot install $1"; }
    touch "$cache/apart/$1/.has"
}

# serve NAME COMMAND…: starts a server and waits for the URL it says; $url has it. Its standard
# input stays open as long as this script lives.
serve() {
    local name=$1
    shift
    mkfifo "$work/$name.input"
    "$@" <"$work/$name.input" >"$work/$name.said" 2>"$work/$name.log" &
    started+=($!)
    exec {held}>"$work/$name.input"
    url=
    for _ in $(seq 100); do
        url=$(grep -oE 'http://127\.0\.0\.1:[0-9]+(/mcp)?' "$work/$name.said" | head -1)
        [ -n "$url" ] && return
        sleep 0.1
    done
    cat "$work/$name.said" "$work/$name.log"
    echo "$name did not start"
    exit 1
}

# database: starts a PostgreSQL server; $store is the address of a store in it. Fails if none is
# installed.
database() {
    local programs as=()
    programs=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | tail -1)
    programs=$(dirname "${programs:-$(command -v initdb)}")
    [ -x "$programs/initdb" ] || return
    # The user that the server runs as may read no other directory of this script.
    database=$(mktemp -d)
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
        chown postgres "$database"
    fi
    (cd "$database" && "${as[@]}" "$programs/initdb" --no-sync --auth=trust --username=sl \
        --encoding=UTF8 --locale=C -D "$database/data") >"$work/database.log" || return
    # SIGINT ends it without waiting for its clients.
    (
        cd "$database" || exit
        "${as[@]}" "$programs/postgres" -D "$database/data" -k "$database" -c listen_addresses= &
        server=$!
        trap 'kill -INT "$server"' TERM
        wait "$server"
        wait "$server"
    ) <&- >>"$work/database.log" 2>&1 &
    started+=($!)
    store="postgres://sl@/postgres?host=$database&durability=single"
    for _ in $(seq 100); do
        [ -S "$database/.s.PGSQL.5432" ] && return
        sleep 0.1
    done
    cat "$work/database.log"
    return 1
}

# built: $program is the path of the program under test: SESSIONLOG_PROGRAM, or the one built here.
# The example is built with the features of the tests, so that this builds no second library.
built() {
    [ -n "${SESSIONLOG_PROGRAM:-}" ] ||
        cargo build --quiet --locked --bin sessionlog --example conformance || exit 1
    program=$(realpath "${SESSIONLOG_PROGRAM:-${CARGO_TARGET_DIR:-target}/debug/sessionlog}")
    # It is no setting of the program.
    unset SESSIONLOG_PROGRAM
}
