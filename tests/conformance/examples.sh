#!/usr/bin/env bash
# The examples that are not Rust, run as they are: the clients in Python and TypeScript against the
# program as it is shipped, over a data directory and over a database, what they print compared with
# the log (examples.py). The last line gives the counts.
# SESSIONLOG_PROGRAM names a program that is built already. Exit code: 0 when all passed, 1 when not,
# 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
command -v python3 >/dev/null || skip "python3 is not installed"
npm_has # node, and nothing else
built
export HOME=$work PYTHONDONTWRITEBYTECODE=1
unset "${!SESSIONLOG_@}" XDG_DATA_HOME XDG_CONFIG_HOME

passed=0
failed=0
# check NAME COMMAND…: it ends with 0, or what it said is shown.
check() {
    local name=$1
    shift
    if timeout 60 "$@" >"$work/checked" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s: failed\n' "$name"
        head -40 "$work/checked" | cut -c1-300
    fi
}

places=("--data-dir $work/data")
if database; then
    places+=("--store $store")
elif [ -n "${REQUIRE_SERVERS:-}" ]; then
    echo 'PostgreSQL did not start'
    exit 1
fi
clients=("python python3 examples/python/session.py" "typescript node examples/typescript/session.ts")
for at in "${!places[@]}"; do
    read -ra place <<<"${places[at]}"
    serve "server$at" "$program" "${place[@]}" serve --listen 127.0.0.1:0 --log error
    for client in "${clients[@]}"; do
        read -r name command file <<<"$client"
        SESSIONLOG_URL=$url timeout 60 "$command" "$file" "$name" >"$work/$name.out" 2>"$work/$name.err" ||
            cat "$work/$name.err"
        "$program" "${place[@]}" events "$name" >"$work/$name.events"
        check "$file" python3 tests/conformance/examples.py "$name" "$work/$name.out" \
            "$work/$name.events"
        # A refusal ends it with 1, and shows the answer.
        SESSIONLOG_URL=$url timeout 60 "$command" "$file" '!' >"$work/$name.out" 2>"$work/$name.err"
        check "$file, refused" test "$?" = 1 -a ! -s "$work/$name.out"
        check "$file, refused" grep -q '"invalid_request"' "$work/$name.err"
    done
done

printf 'examples: %d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" = $((6 * ${#places[@]})) ]
