#!/usr/bin/env bash
# Schemathesis over the description the server publishes: requests made from proto/openapi.json, what
# it excludes among them, with a credential that may do everything and without any. Any server error
# fails; so does an answer outside the description, or one that a credential should have stopped.
# The last line gives the counts. Exit code: 0 when all passed, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
described=$PWD/proto/openapi.json
. tests/conformance/tools.sh
pip_has schemathesis==4.32.5
built
export HOME=$work XDG_DATA_HOME=$work

"$program" tokens create --tokens-file "$work/tokens.json" --tenant acme --user ada \
    --scopes read,write,delete,admin,operator --json >"$work/token" || exit 1
token=$(grep -oE 'sl_[0-9a-z_]+' "$work/token" | awk '{ print length, $0 }' | sort -rn | head -1 | cut -d' ' -f2)
serve asked "$program" --data-dir "$work/asked" serve --listen 127.0.0.1:0 \
    --tokens-file "$work/tokens.json" --log error
# Something for the requests to meet.
for session in s t; do
    for n in $(seq 20); do
        printf '{"type":"user.message","id":"e%s","content":"n"}\n' "$n"
    done | SESSIONLOG_TOKEN=$token "$program" append --create $session --url "$url" >/dev/null ||
        exit 1
done

# A stream does not end by itself, and the suite cannot write lines of JSON: these three are left out.
# What ends a session is asked of sessions that nobody needs.
cat >"$work/known.toml" <<'TOML'
[parameters]
"path.session" = "s"
TOML
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
failed=0
counts=()
# ask NAME SECONDS: one run with the arguments in before and after the verb; its cases are counted.
ask() {
    local name=$1 said=$work/${1// /-}
    # It keeps notes in the directory it runs in.
    (cd "$work" && timeout $(($2 + 60)) "$python" -m schemathesis.cli "${before[@]}" run "$described" \
        --url "$url" --checks "$checks" --phases examples,coverage,fuzzing --max-time "$2" --seed 7 \
        --exclude-operation-id streamEvents --exclude-operation-id streamThread \
        --exclude-operation-id appendStream \
        --request-timeout 20 --warnings off --suppress-health-check all --continue-on-failure \
        "${after[@]}") >"$said" 2>&1 || {
        failed=1
        grep -vE '^ *\|' "$said" | tail -120 | cut -c1-300
    }
    counts+=("$name: $(grep -oE '[0-9]+ generated.*' "$said" || echo 0)")
}
before=(--config-file "$work/known.toml")
after=(-H "Authorization: Bearer $token" --exclude-operation-id deleteSession
    --exclude-operation-id eraseSession --exclude-operation-id archiveSession)
ask "a known session" 30
before=()
after=(-H "Authorization: Bearer $token")
ask "any session" 25
# Nothing but refusals, all of them described.
after=()
ask "no credential" 15
if grep -a 'panicked' "$work/asked.log"; then failed=1; fi

printf -v told '; %s' "${counts[@]}"
printf 'openapi: %s\n' "${told#; }"
exit "$failed"
