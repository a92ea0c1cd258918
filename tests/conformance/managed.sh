#!/usr/bin/env bash
# The official `anthropic` client, unchanged, against the program as it is shipped: sessions and
# events of its Managed Agents API (managed.py), by three releases that spell requests differently,
# from the first whose streams bring any event to the current one; the current one against a node of
# a store in PostgreSQL as well, where that is installed. The last line gives the counts.
# Exit code: 0 when all passed, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
releases=(2.12.0 1.17.0 0.95.0)
for release in "${releases[@]}"; do pip_apart "anthropic==$release"; done
built
export HOME=$work XDG_DATA_HOME=$work

passed=0
runs=0
# run RELEASE [STORE]
run() {
    local directory=$work/$1-${2:+node}
    mkdir "$directory"
    runs=$((runs + 1))
    if PYTHONPATH=$cache/apart/anthropic==$1 timeout 300 "$python" tests/conformance/managed.py \
        "$program" "$directory" "${@:2}" >"$directory/said" 2>"$directory/log"; then
        printf '%s%s\n' "$(tail -1 "$directory/said")" "${2:+ (node)}"
        passed=$((passed + 1))
    else
        cat "$directory/log" "$directory/said" | cut -c1-600 | tail -20
        printf 'anthropic %s: failed%s\n' "$1" "${2:+ (node)}"
    fi
}
for release in "${releases[@]}"; do run "$release"; done
node=
if database; then
    run "${releases[0]}" "$store"
elif [ -n "${REQUIRE_SERVERS:-}" ]; then
    echo 'PostgreSQL did not start'
    runs=$((runs + 1))
else
    node='; no node (PostgreSQL is not installed)'
fi
printf 'managed: %d of %d runs passed%s\n' "$passed" "$runs" "$node"
[ "$passed" = "$runs" ]
