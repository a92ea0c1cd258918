#!/usr/bin/env bash
# Other people's servers behind `sessionlog proxy`: the conformance suite says the same of a server
# with the proxy and without it, and the Inspector sees the same tools, but for the two of ours, and
# the same answers. The last line gives the counts. Exit code: 0 when nothing differs, 1 when
# something does, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
suite=@modelcontextprotocol/conformance
npm_has "$suite@0.2.0-alpha.12" @modelcontextprotocol/inspector@2.12.0 \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/server-memory@2026.8.31
built
target=${CARGO_TARGET_DIR:-target}/debug
servers=$(realpath "$cache/npm/node_modules/@modelcontextprotocol")
export HOME=$work XDG_DATA_HOME=$work
mkdir "$work/files"
echo 'one line' >"$work/files/a.txt"

differ=0
# same WHAT WITHOUT WITH: two files say the same, but for our two tools.
same() {
    if node -e '
        const fs = require("fs");
        const ours = new Set(["clear_session", "get_research_session"]);
        const read = (path) => {
            const value = JSON.parse(fs.readFileSync(path, "utf8"));
            if (value.tools) value.tools = value.tools.filter((tool) => !ours.has(tool.name));
            return JSON.stringify(value);
        };
        process.exit(read(process.argv[1]) === read(process.argv[2]) ? 0 : 1)' "$2" "$3"; then
        return
    fi
    differ=$((differ + 1))
    echo "differs: $1"
    diff "$2" "$3" | head -20
}

looks=0
# look NAME COMMAND… -- ARGUMENTS…: the Inspector on a server, without the proxy and with it.
look() {
    local name=$1 command=() one
    shift
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    looks=$((looks + 1))
    for one in without with; do
        local whole=("${command[@]}")
        [ "$one" = with ] && whole=("$program" --data-dir "$work/data" proxy --cache-age 0s -- "${command[@]}")
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nexec' >"$work/wrapped"
        printf ' %q' "${whole[@]}" >>"$work/wrapped"
        chmod +x "$work/wrapped"
        timeout 60 mcp-inspector --cli "$work/wrapped" "$@" \
            >"$work/$one" 2>"$work/$one.err" </dev/null || { echo "inspector $name $one:"; head -5 "$work/$one.err"; }
    done
    same "$name $*" "$work/without" "$work/with"
}

everything=(node "$servers/server-everything/dist/index.js" stdio)
filesystem=(node "$servers/server-filesystem/dist/index.js" "$work/files")
memory=(env "MEMORY_FILE_PATH=$work/memory.jsonl" node "$servers/server-memory/dist/index.js")
for server in everything filesystem memory; do
    declare -n command=$server
    look "$server" "${command[@]}" -- --method tools/list
done
look everything "${everything[@]}" -- --method resources/list
look everything "${everything[@]}" -- --method prompts/list
look everything "${everything[@]}" -- --method tools/call --tool-name echo --tool-arg message=hello
look everything "${everything[@]}" -- --method tools/call --tool-name get-sum --tool-arg a=2 b=3
look filesystem "${filesystem[@]}" -- --method tools/call --tool-name read_text_file \
    --tool-arg "path=$work/files/a.txt"
look filesystem "${filesystem[@]}" -- --method tools/call --tool-name read_text_file \
    --tool-arg "path=/etc/passwd"
look memory "${memory[@]}" -- --method tools/call --tool-name read_graph
recorded=$(for session in $("$program" --data-dir "$work/data" sessions --json |
    node -e 'for (const one of JSON.parse(require("fs").readFileSync(0, "utf8")).data) console.log(one.id)'); do
    "$program" --data-dir "$work/data" events "$session"
done | grep -c '"agent.tool_result"')
[ "$recorded" = 5 ] || { differ=$((differ + 1)); echo "5 calls were made, $recorded recorded"; }

# summary URL REQUIREMENTS: what the suite says of each scenario.
summary() {
    timeout 400 node "$cache/npm/node_modules/$suite/dist/index.js" server --url "$1" \
        --requirements "$2" --output-dir "$work/out" >"$work/said" 2>&1
    rm -rf "$work/out"
    grep -E '^[✓✗] .*passed, [0-9]+ failed' "$work/said" | sed 's/ *([^)]*)$//' | sort
}
scenarios=0
suites=()
# compare NAME URL: the suite says the same of a server with the proxy and without it.
compare() {
    local name=$1 direct=$2 revision
    serve "proxy-$name" "$program" --data-dir "$work/data" proxy --listen 127.0.0.1:0 --url "$direct"
    for revision in 2025-11-25 2026-07-28; do
        summary "$direct" "$revision" >"$work/$name.without"
        summary "$url" "$revision" >"$work/$name.with"
        scenarios=$((scenarios + $(wc -l <"$work/$name.without")))
        local passed
        passed=$(grep -c '^✓' "$work/$name.with")
        suites+=("$name $revision $passed/$(wc -l <"$work/$name.with")")
        # The proxy keeps strangers' pages out also where the server behind it does not.
        if grep -q '^✗ dns-rebinding-protection' "$work/$name.without" &&
            grep -q '^✓ dns-rebinding-protection' "$work/$name.with"; then
            sed -i '/ dns-rebinding-protection/d' "$work/$name.without" "$work/$name.with"
        fi
        if ! diff "$work/$name.without" "$work/$name.with"; then
            differ=$((differ + 1))
            echo "differs: $name $revision (< without the proxy, > with it)"
        fi
    done
}
serve fixtures "$target/examples/conformance" "$work/fixtures.store"
compare fixtures "$url"
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
PORT=$port node "$servers/server-everything/dist/index.js" streamableHttp >"$work/everything.log" 2>&1 </dev/null &
started+=($!)
for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.1; done
compare everything "http://127.0.0.1:$port/mcp"

printf 'proxy: %d looks, %d scenarios (%s), %d differ\n' "$looks" "$scenarios" \
    "$(IFS=,; echo "${suites[*]}")" "$differ"
[ "$differ" = 0 ] && [ "$scenarios" -gt 60 ]
