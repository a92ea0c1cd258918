#!/usr/bin/env bash
# Other people's clients against the program as it is shipped: the official Python and TypeScript
# SDKs, both transports and both generations, through a session of 200 steps whose owner is killed
# in the middle (scenario.py, scenario.mjs), a session that is handed on (handoff.json), and the
# Inspector's strict look at the tools. Some run once more with a database as the store, so that what
# is killed is a node. The last line gives the counts. Exit code: 0 when all passed, 1 when not, 3
# when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
npm_has @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/sdk@1.32.2 \
    @modelcontextprotocol/inspector@2.12.0
pip_has mcp==2.3.0
built
here=$PWD
# What the programs under test keep belongs into the work directory.
export HOME=$work XDG_DATA_HOME=$work

scenario() { # [node] LANGUAGE TRANSPORT GENERATION [PACKAGE] | [node] LANGUAGE handoff
    local name="$*" program=$program
    local directory=$work/${name// /-}
    [ "$1" != node ] || { program=$work/node && shift; }
    local language=$1
    shift
    mkdir "$directory"
    case $language$1 in
    pythonhandoff) timeout 300 "$python" "$here/tests/conformance/handoff.py" \
        "$program" "$directory" ;;
    typescripthandoff) cd "$cache/npm" && timeout 300 node "$here/tests/conformance/handoff.mjs" \
        "$program" "$directory" ;;
    python*) timeout 300 "$python" "$here/tests/conformance/scenario.py" \
        "$program" "$directory" "$@" ;;
    typescript*) cd "$cache/npm" && timeout 300 node "$here/tests/conformance/scenario.mjs" \
        "$program" "$directory" "$@" ;;
    esac >"$directory/said" 2>&1 || sed 's/^/  /' "$directory/said" | tail -20
    case $(tail -1 "$directory/said") in
    *', 0 failed') printf '%s:%s\n' "$name" "$(tail -1 "$directory/said" | sed 's/.*://')" ;;
    *) printf '%s: 1 failed\n' "$name" ;;
    esac
}
export -f scenario
export work program python cache here
nodes=()
if database; then
    # A schema for each data directory, which is that of the node.
    cat >"$work/node" <<NODE
#!/bin/sh
exec "$program" --store "$store&schema=s\$(printf %s "\$2" | cksum | cut -d' ' -f1)" "\$@"
NODE
    chmod +x "$work/node"
    nodes=("node python stdio 2026-07-28" "node typescript http legacy client" "node python handoff"
        "node typescript handoff")
elif [ -n "${REQUIRE_SERVERS:-}" ]; then
    echo 'PostgreSQL did not start'
    exit 1
fi
printf '%s\n' "${nodes[@]}" \
    "python stdio legacy" "python http legacy" "python stdio 2026-07-28" "python http 2026-07-28" \
    "typescript stdio legacy sdk" "typescript http legacy sdk" \
    "typescript stdio legacy client" "typescript http legacy client" \
    "typescript stdio 2026-07-28 client" "typescript http 2026-07-28 client" \
    "python handoff" "typescript handoff" |
    xargs -P 2 -I '{}' bash -c 'scenario {}' | tee "$work/scenarios"
passed=$(grep -c ', 0 failed$' "$work/scenarios")
failed=$(grep -c ', *1 failed$\|: 1 failed$' "$work/scenarios")

looks=0
findings=0
# look WHAT ARGUMENTS…: the Inspector ends with 0, says nothing on standard error, and shows WHAT.
look() {
    local what=$1
    shift
    looks=$((looks + 1))
    if ! timeout 60 mcp-inspector --cli "${target[@]}" "$@" \
        >"$work/shown" 2>"$work/finding" </dev/null || [ -s "$work/finding" ] ||
        ! grep -q -- "$what" "$work/shown"; then
        findings=$((findings + 1))
        printf 'inspector %s:\n' "$*"
        cat "$work/finding" "$work/shown" | head -20
    fi
}
serve inspected "$program" --data-dir "$work/inspected" serve --listen 127.0.0.1:0
for transport in stdio http; do
    case $transport in
    stdio) target=("$program" --data-dir "$work/inspected" mcp --toolsets research,events) ;;
    http) target=("$url/mcp?toolsets=research,events" --transport http) ;;
    esac
    look '"get_events"' --method tools/list --strict
    look '"sessionId"' --method tools/call --tool-name sequential_search \
        --tool-arg "searchStep=looked by $transport" stepNumber=1 nextStepNeeded=true
    look "looked by $transport" --method tools/call --tool-name list_sessions
    look 'session_required\|looked by' --method tools/call --tool-name review_history
    look 'session://' --method resources/list
    look 'session://{id}/index' --method resources/templates/list
    look '"continue"' --method prompts/list
done

printf 'clients: %d scenarios passed, %d failed; inspector: %d looks, %d findings\n' \
    "$passed" "$failed" "$looks" "$findings"
[ "$passed" = $((12 + ${#nodes[@]})) ] && [ "$failed" = 0 ] && [ "$findings" = 0 ]
