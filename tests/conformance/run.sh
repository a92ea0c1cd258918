#!/usr/bin/env bash
# The MCP conformance suite, for both generations of the protocol: against the product's own door
# with the suite's fixtures mounted beside the product's tools (server.rs), and, for what needs no
# fixture, against the program as it is shipped. The last line gives the counts.
# Exit code: 0 when everything but extensions passed, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
suite=@modelcontextprotocol/conformance
npm_has "$suite@0.2.0-alpha.12"
built

failed=0
counts=()
# Scenarios passed and failed, and checks; those of extensions aside, which nobody has to offer.
count() {
    awk -v what="$1" -v least="$2" '
        /passed, [0-9]+ failed/ && /^[✓✗]/ {
            if ($2 ~ /^tasks-/) { extensions++; next }
            if ($1 == "✓") passed++; else missed++
            checks += $3
        }
        END {
            printf "%s %d/%d (%d checks)", what, passed, missed, checks
            exit missed > 0 || passed < least
        }' "$work/said"
}
# What failed, and why.
faults() {
    grep -rhoE '"(id|status|errorMessage)": *"[^"]*"' "$work/out" --include=checks.json |
        grep -B2 -A1 '"FAILURE"' | grep -v tasks | head -60
    rm -rf "$work/out"
}

serve fixtures "${CARGO_TARGET_DIR:-target}/debug/examples/conformance" "$work/fixtures.store"
for wanted in 2025-11-25:33 2026-07-28:40; do
    timeout 300 node "$cache/npm/node_modules/$suite/dist/index.js" server --url "$url" \
        --requirements "${wanted%:*}" --output-dir "$work/out" >"$work/said" 2>&1 || failed=1
    sed -n '/^=== SUMMARY/,$p' "$work/said"
    counts+=("$(count "${wanted%:*}" "${wanted#*:}")") || { failed=1; faults; }
done

serve shipped "$program" \
    --data-dir "$work/shipped.store" serve --listen 127.0.0.1:0
both="tools-list resources-list prompts-list dns-rebinding-protection server-sse-multiple-streams"
older="server-initialize ping server-session-lifecycle server-sse-polling"
newer="caching sep-2164-resource-not-found http-header-validation"
: >"$work/said"
for case in $(printf '2025-11-25:%s ' $both $older) $(printf '2026-07-28:%s ' $both $newer); do
    timeout 60 node "$cache/npm/node_modules/$suite/dist/index.js" server --url "$url/mcp" \
        --scenario "${case#*:}" --spec-version "${case%:*}" --output-dir "$work/out" \
        >"$work/one" 2>&1 && mark=✓ || mark=✗
    passed=$(grep -oE '^Passed: [0-9]+' "$work/one" | grep -oE '[0-9]+') || mark=✗
    printf '%s %s: %s passed, %s failed\n' "$mark" "$case" "${passed:-0}" \
        "$([ $mark = ✗ ]; echo $((1 - $?)))" | tee -a "$work/said"
done
counts+=("$(count "as shipped" 17)") || { failed=1; faults; }

printf 'conformance: %s, %s, %s\n' "${counts[@]}"
exit "$failed"
