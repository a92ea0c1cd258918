#!/usr/bin/env bash
# The official `anthropic` client, unchanged, against the program as it is shipped: sessions and
# events of its Managed Agents API (managed.py), by three releases that spell requests differently,
# from the first whose streams bring any event to the current one. The last line gives the counts.
# Exit code: 0 when all passed, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
releases=(2.12.0 1.17.0 0.95.0)
for release in "${releases[@]}"; do pip_apart "anthropic==$release"; done
built
export HOME=$work XDG_DATA_HOME=$work

passed=0
for release in "${releases[@]}"; do
    mkdir "$work/$release"
    if PYTHONPATH=$cache/apart/anthropic==$release timeout 300 "$python" tests/conformance/managed.py \
        "$program" "$work/$release" >"$work/$release/said" 2>"$work/$release/log"; then
        tail -1 "$work/$release/said"
        passed=$((passed + 1))
    else
        cat "$work/$release/log" "$work/$release/said" | cut -c1-600 | tail -20
        printf 'anthropic %s: failed\n' "$release"
    fi
done
printf 'managed: %d of %d releases passed\n' "$passed" "${#releases[@]}"
[ "$passed" = "${#releases[@]}" ]
