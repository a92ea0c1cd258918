#!/usr/bin/env bash
# The real Claude Code and the real Codex, set up by `sessionlog install`, without a network: their
# model is a script of our own on loopback (model.py). Each calls a tool, has its context compacted,
# and then recovers by our tool without an id; check.py looks at what was recorded and at what the
# model was sent. The last line gives the counts. Exit code: 0 when all held, 1 when not, 3 when it
# could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
npm_has @openai/codex@0.169.0
pip_has claude-agent-sdk==0.2.187
cargo build --quiet --locked --bin sessionlog || exit 1
program=$(realpath "${CARGO_TARGET_DIR:-target}/debug/sessionlog")
here=$PWD
claude=$("$python" -c 'import claude_agent_sdk, pathlib
print(pathlib.Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")')
[ -x "$claude" ] || chmod +x "$claude" 2>/dev/null || skip "claude-agent-sdk brings no program for this machine"
"$claude" --version >/dev/null 2>&1 || skip "the program in claude-agent-sdk does not run here"
codex --version >/dev/null 2>&1 || skip "the program in @openai/codex does not run here"

# A home, a project, a data directory and a model of its own for each.
agent() { # NAME
    name=$1 home=$work/$1/home project=$work/$1/project log=$work/$1/requests
    mkdir -p "$home" "$project"
    serve "$name-model" "$python" "$here/tests/agents/model.py" "$log"
    model=$url
}
# What a person's shell would hand on: nothing of this machine's own.
alone() {
    (cd "$project" && env -i PATH="$PATH" HOME="$home" LANG=C.UTF-8 "${shell[@]}" timeout 120 "$@" </dev/null)
}
script() { printf '%s\n' "$@" >"$log.script"; }
failed=0
fault() {
    printf '%s: %s\n' "$name" "$1"
    tail -20 "$work/$name/said"
    failed=1
}

agent claude-code
shell=(ANTHROPIC_BASE_URL="$model" ANTHROPIC_API_KEY=sk-stub CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    DISABLE_AUTOUPDATER=1)
alone "$program" install claude-code --data-dir "$work/$name/data" >"$work/$name/installed" || fault "install"
turn() { # ARGUMENTS…
    alone "$claude" --allowedTools 'Bash(echo:*)' mcp__sessionlog --output-format json "$@" \
        >"$work/$name/said" 2>&1 || fault "claude ended with $?"
}
script "bash echo the harbour wall is 4.2 m high" "say It is 4.2 m high."
turn -p "Measure the harbour wall"
session=$(grep -oE '"session_id":"[0-9a-f-]{36}"' "$work/$name/said" | head -1 | cut -d'"' -f4)
turn -p "/compact keep the goal" --resume "$session"
script "tool get_research_session" "say Recovered."
turn -p "Where were we" --resume "$session"
script "say Hello."
turn -p "Something new"
alone "$program" --data-dir "$work/$name/data" events "$session" >"$work/$name/events" || fault "events"
alone "$program" uninstall claude-code >"$work/$name/uninstalled" || fault "uninstall"
"$python" tests/agents/check.py "$name" "$session" "$work/$name" | tee "$work/$name/checked"

agent codex
shell=(STUB_KEY=k)
mkdir -p "$home/.codex"
cat >"$home/.codex/config.toml" <<TOML
# A person's own settings.
model = "gpt-5"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "$model/v1"
env_key = "STUB_KEY"
wire_api = "responses"
TOML
cp "$home/.codex/config.toml" "$work/$name/before"
alone "$program" install codex --data-dir "$work/$name/data" >"$work/$name/installed" || fault "install"
turn() { # ARGUMENTS…
    alone codex exec --skip-git-repo-check --dangerously-bypass-hook-trust \
        --dangerously-bypass-approvals-and-sandbox "$@" >"$work/$name/said" 2>&1 ||
        fault "codex ended with $?"
}
script "bash echo the harbour wall is 4.2 m high" "say It is 4.2 m high."
turn -c model_auto_compact_token_limit=105 "Measure the harbour wall"
session=$(grep -oE 'session id: [0-9a-f-]{36}' "$work/$name/said" | head -1 | cut -d' ' -f3)
script "tool get_research_session" "say Recovered."
alone codex exec resume "$session" --skip-git-repo-check --dangerously-bypass-hook-trust \
    --dangerously-bypass-approvals-and-sandbox "Where were we" >"$work/$name/said" 2>&1 ||
    fault "codex ended with $?"
script "say Hello."
turn "Something new"
alone "$program" --data-dir "$work/$name/data" events "$session" >"$work/$name/events" || fault "events"
alone "$program" uninstall codex >"$work/$name/uninstalled" || fault "uninstall"
# It notes in the file what projects it trusts: that stays, with what was there.
grep -q sessionlog "$home/.codex/config.toml" && fault "we are still in config.toml"
"$python" tests/agents/check.py "$name" "$session" "$work/$name" | tee "$work/$name/checked"

held=$(cat "$work"/*/checked | grep -c '^ok ')
broken=$(cat "$work"/*/checked | grep -c '^FAILED ')
printf 'agents: %d things held, %d did not\n' "$held" "$broken"
[ "$failed" = 0 ] && [ "$broken" = 0 ] && [ "$held" -ge 20 ]
