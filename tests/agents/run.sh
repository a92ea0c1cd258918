#!/usr/bin/env bash
# The real Claude Code and the real Codex, set up by `sessionlog install`, without a network: their
# model is a script of our own on loopback (model.py). Each calls a tool, has its context compacted,
# and then recovers by our tool without an id; and below the root of a repository it records research
# without an id, ends, and goes on with it. In a working session a test is mended, a file is reverted,
# a question is answered, four resumptions and a compaction follow. check.py looks at what was recorded and at what the model
# was sent. Then three days of one project (days.sh, days.py): with a compaction, a crash, a tiny run, a subagent, an import
# and a cleared context; each text that a model is given is in AGENT/given. The last line gives the counts.
# Exit code: 0 when all held, 1 when not, 3 when it could not run. SESSIONLOG_PROGRAM names a program to take instead of building one, AGENTS_KEEP a
# directory for what is left of the run: what the models were sent is in AGENT/requests. With AGENTS_STORE=1 the store is a database, and what the
# agents start is a node.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
. tests/agents/days.sh
npm_has @openai/codex@0.169.0
pip_has claude-agent-sdk==0.2.187 pytest==9.2.0
command -v git >/dev/null || skip "git is not installed"
pytest=$cache/python/bin/pytest
built
here=$PWD
store=
[ -z "${AGENTS_STORE:-}" ] || database || skip "no PostgreSQL is installed"
claude=$("$python" -c 'import claude_agent_sdk, pathlib
print(pathlib.Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")')
[ -x "$claude" ] || chmod +x "$claude" 2>/dev/null || skip "claude-agent-sdk brings no program for this machine"
"$claude" --version >/dev/null 2>&1 || skip "the program in claude-agent-sdk does not run here"
codex --version >/dev/null 2>&1 || skip "the program in @openai/codex does not run here"

# A home, a project, a data directory and a model of its own for each.
agent() { # NAME
    name=$1 home=$work/$1/home project=$work/$1/project log=$work/$1/requests
    place=(--data-dir "$work/$1/data")
    [ -z "$store" ] || place=(--store "$store&schema=${1//-/_}")
    repository=$work/$1/repository
    mkdir -p "$home" "$project" "$repository/.git" "$repository/src"
    serve "$name-model" "$python" "$here/tests/agents/model.py" "$log"
    model=$url
}
# What a person's shell would hand on: nothing of this machine's own.
alone() {
    (cd "$project" && env -i PATH="$PATH" HOME="$home" LANG=C.UTF-8 "${shell[@]}" timeout 120 "$@" </dev/null)
}
script() { printf '%s\n' "$@" | grep . >"$log.script"; }
# A step of research, by our tool.
step() { # NUMBER
    printf 'tool sequential_search {"stepNumber": %d, "searchStep": "Looked at wall %d", "nextStepNeeded": true}' "$1" "$1"
}
# The repository of the working session: two tests fail in it.
shop() { # [DIRECTORY]
    project=$work/$name/${1:-shop}
    mkdir -p "$project"
    printf 'LEFT = 3\n' >"$project/stock.py"
    printf 'def cents(text):\n    return int(float(text) * 100)\n' >"$project/price.py"
    printf 'RATE = 7\n\n\ndef tax(cents):\n    return cents * RATE // 100\n' >"$project/tax.py"
    printf 'def total(prices):\n    return 0.0 + sum(prices)\n' >"$project/cart.py"
    printf '# Shop\n' >"$project/README.md"
    unit price 'price.cents("1.15"), 115'
    unit tax 'tax.tax(50), 10'
    alone git init --quiet
    alone git add .
    alone git -c user.name=shop -c user.email=shop@localhost commit --quiet --message "Open the shop"
}
unit() { # MODULE EXPECTED
    printf 'import unittest\n\nimport %s\n\n\nclass Test(unittest.TestCase):\n    def test_%s(self):\n        self.assertEqual(%s)\n' \
        "$1" "$1" "$2" >"$project/test_$1.py"
}
# What the user says in it, and what the model does then. An agent's section says how it begins
# (first), goes on (more), edits a file, writes one and keeps its plan.
steps=("Read prices without floats" "Round the tax half up" "Print receipts in cents" "Ask the stock team")
work_in_the_shop() {
    # Another session of the same project, whose words the task shares.
    script "say The shop must count money in cents since LAW-88: floats are forbidden."
    turn "${said[@]}" "Why does the shop count money twice?"
    script "$(plan 0)" "bash $pytest -q" "say Two tests fail."
    first "Make the shop count money in cents, never in floats"
    script "words The float cuts 1.15 to 114, so the text itself must be read." \
        "$(edit price.py '    return int(float(text) * 100)' "    return int(text.replace('.', ''))")" \
        "bash $pytest -q test_price.py::Test::test_price" "bash sed -i 's/RATE = 7/RATE = 19/' tax.py" \
        "bash $pytest --tb=short test_tax.py" "$(plan 1)" "$(ask)" "say Prices are right now."
    more "Round the tax half up, its rate is 19 percent"
    script "$(edit cart.py '    return 0.0 + sum(prices)' '    return sum(prices)')" \
        "$(edit stock.py 'LEFT = 3' 'LEFT = 4')" "say The cart adds cents."
    more "ok"
    script "words That file is back as it was." "bash git checkout --quiet stock.py" \
        "$(write money.py 'CENTS = 100')" "say Left alone."
    more "Leave stock.py alone, another team owns it"
    script "$(write CHANGES.md '# SHOP-417')" "bash echo 'Money is counted in cents.' >> README.md" "say Noted."
    more "Note every change in CHANGES.md under ticket SHOP-417"
}
# What its user is asked, and what a hook of the user's settings answers in the user's place.
question='{"question": "Which currency is on a receipt?", "header": "Currency", "multiSelect": false, "options":
    [{"label": "EUR", "description": "As today"}, {"label": "CHF", "description": "For the new shop"}]}'
question=${question//$'\n'/}
# What is left of it.
shop_session() {
    printf '%s' "$working" >"$work/$name/working"
    alone "$program" "${place[@]}" events "$working" >"$work/$name/working.events" || fault "events"
    alone "$program" "${place[@]}" sessions --json --workspace "$project" \
        >"$work/$name/shop.sessions" || fault "sessions"
}
# Its transcripts, imported into what hooks recorded of them.
import_again() { # FILES…
    alone "$program" "${place[@]}" import "$@" >>"$work/$name/imported" 2>&1 || fault "import"
    alone "$program" "${place[@]}" events "$working" >"$work/$name/working.after" || fault "events"
    alone "$program" "${place[@]}" sessions --json --workspace "$project" \
        >"$work/$name/shop.after" || fault "sessions"
}
# What is left of the research in the repository.
research() { # SESSION
    printf '%s' "$1" >"$work/$name/research"
    alone "$program" "${place[@]}" events "$1" >"$work/$name/research.events" || fault "events"
    alone "$program" "${place[@]}" sessions --json --workspace "$repository" \
        >"$work/$name/research.sessions" || fault "sessions"
}
failed=0
fault() {
    printf '%s: %s\n' "$name" "$1"
    tail -20 "$work/$name/said"
    failed=1
}

agent claude-code
shell=(ANTHROPIC_BASE_URL="$model" ANTHROPIC_API_KEY=sk-stub CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    DISABLE_AUTOUPDATER=1)
alone "$program" install claude-code --yes "${place[@]}" >"$work/$name/installed" || fault "install"
tools=(--allowedTools 'Bash(echo:*)' mcp__sessionlog)
turn() { # ARGUMENTS…
    alone "$claude" "${tools[@]}" --output-format json "$@" \
        >"$work/$name/said" 2>&1 || fault "claude ended with $?"
}
script "bash echo the harbour wall is 4.2 m high" "say It is 4.2 m high."
turn -p "Measure the harbour wall"
session=$(grep -oE '"session_id":"[0-9a-f-]{36}"' "$work/$name/said" | head -1 | cut -d'"' -f4)
turn -p "/compact keep the goal" --resume "$session"
script "tool get_research_session" 'tool memory_search {"query": "harbour wall"}' "say Recovered."
turn -p "Where were we" --resume "$session"
script "say Hello."
turn -p "Something new"
alone "$program" "${place[@]}" events "$session" >"$work/$name/events" || fault "events"
project=$repository/src
script "$(step 1)" "$(step 2)" "say Two steps."
turn -p "Look at the walls"
begun=$(grep -oE '"session_id":"[0-9a-f-]{36}"' "$work/$name/said" | head -1 | cut -d'"' -f4)
script "$(step 3)" "say Three steps."
turn -p "Go on" --resume "$begun"
research "$begun"
shop
tools=(--allowedTools Bash Edit Read Write TaskCreate TaskUpdate mcp__sessionlog)
shell+=(CLAUDE_CODE_ENABLE_TODO_TOOLS=1)
# The question is offered only where something can answer it.
cat >"$work/$name/answer.json" <<JSON
{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
    "updatedInput": {"questions": [$question], "answers": {"Which currency is on a receipt?": "CHF"}}}}
JSON
cat >"$work/$name/settings.json" <<JSON
{"hooks": {"PreToolUse": [{"matcher": "AskUserQuestion",
    "hooks": [{"type": "command", "command": "cat $work/$name/answer.json"}]}]}}
JSON
tools+=(--settings "$work/$name/settings.json" --permission-prompt-tool mcp__sessionlog__get_research_session)
ask() { printf 'own AskUserQuestion {"questions": [%s]}' "$question"; }
edit() { # FILE OLD NEW
    printf 'own Read {"file_path": "%s"}\n' "$project/$1"
    printf 'own Edit {"file_path": "%s", "old_string": "%s", "new_string": "%s"}' "$project/$1" "$2" "$3"
}
write() { # FILE CONTENT
    printf 'own Write {"file_path": "%s", "content": "%s"}' "$project/$1" "$2"
}
plan() { # DONE
    if [ "$1" = 0 ]; then
        for step in "${steps[@]}"; do
            printf 'own TaskCreate {"subject": "%s", "description": "%s."}\n' "$step" "$step"
        done
        printf 'own TaskUpdate {"taskId": "1", "status": "in_progress"}'
    else
        printf 'own TaskUpdate {"taskId": "%s", "status": "completed"}\n' "$1"
        printf 'own TaskUpdate {"taskId": "%s", "status": "in_progress"}' "$(($1 + 1))"
    fi
}
# One process of Claude Code to which a person says several things; prints the session of each answer.
talk() { # OPTIONS… -- PROMPTS…
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    printf '%s\n' "$@" |
        (cd "$project" && env -i PATH="$PATH" HOME="$home" LANG=C.UTF-8 "${shell[@]}" timeout 120 "$python" \
            "$here/tests/agents/talk.py" "$claude" "${options[@]}") 2>"$work/$name/said" || fault "claude ended with $?"
}
# One process in which the person clears the context, and refuses a call; its transcripts are imported then.
living_agent() {
    local shop=$project
    project=$work/$name/yard
    mkdir -p "$project"
    printf 'LEFT = 3\n' >"$project/gate.py"
    script "$(step 1)" "say Swept." "$(step 1)" "own Edit {\"file_path\": \"$project/gate.py\", \"old_string\": \"RIGHT = 3\", \"new_string\": \"LEFT = 4\"}" \
        "own WebFetch {\"url\": \"http://127.0.0.1:9/gate\", \"prompt\": \"look\"}" "say Painted."
    talk --allowedTools mcp__sessionlog Edit -- "Sweep the yard" /clear "Paint the gate" >"$work/$name/living"
    living_events before
    alone "$program" "${place[@]}" import "$home"/.claude/projects/*yard*/*.jsonl >"$work/$name/imported" 2>&1 || fault "import"
    living_events after
    alone "$program" "${place[@]}" sessions --json --workspace "$project" >"$work/$name/yard.sessions" || fault "sessions"
    for session_of in $(sort -u "$work/$name/living"); do
        alone "$program" "${place[@]}" export "$session_of" --format claude-code |
            cmp -s - "$home"/.claude/projects/*yard*/"$session_of".jsonl && echo "$session_of" >>"$work/$name/equal"
    done
    project=$shop
}
living_events() { # NAME
    for session_of in $(uniq "$work/$name/living"); do
        alone "$program" "${place[@]}" events "$session_of" || fault "events"
        echo
    done >"$work/$name/living.$1"
}
said=(-p)
more() { turn -p "$1" --resume "$working"; }
first() {
    turn -p "$1"
    working=$(grep -oE '"session_id":"[0-9a-f-]{36}"' "$work/$name/said" | head -1 | cut -d'"' -f4)
}
living_agent
work_in_the_shop
turn -p "/compact" --resume "$working"
script "say Recovered."
more "Where were we"
script "say Still there."
more "Go on"
shop_session
import_again "$home"/.claude/projects/*shop*/*.jsonl
tools=(--allowedTools Agent Bash Edit Read Write TaskCreate TaskUpdate mcp__sessionlog)
tools+=(--settings '{"permissions": {"deny": ["Bash(git push:*)"]}}')
begin() { # PROMPTS…
    talk "${tools[@]}" -- "$@" >"$work/$name/today"
    day=$(tail -1 "$work/$name/today")
    cat "$work/$name/today" >>"$work/$name/days"
}
killed_at() { killed "$claude" "${tools[@]}" --output-format json -p "$1" --resume "$day"; }
subagent() {
    printf 'own Agent {"description": "Look for floats", "prompt": "Which files still use floats?", '
    printf '"subagent_type": "general-purpose", "run_in_background": false}\n'
    printf 'bash cat cart.py\nsay No file uses floats any more: cart.py sums whole cents.'
}
clearing=(/clear "Which team owns stock.py?")
three_days
alone "$program" uninstall claude-code --yes >"$work/$name/uninstalled" || fault "uninstall"
"$python" tests/agents/check.py "$name" "$session" "$work/$name" | tee "$work/$name/checked" ||
    fault "the checks did not end"

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
alone "$program" install codex --yes "${place[@]}" >"$work/$name/installed" || fault "install"
turn() { # ARGUMENTS…
    alone codex exec --skip-git-repo-check --dangerously-bypass-hook-trust \
        --dangerously-bypass-approvals-and-sandbox "$@" >"$work/$name/said" 2>&1 ||
        fault "codex ended with $?"
}
script "bash echo the harbour wall is 4.2 m high" "say It is 4.2 m high."
turn -c model_auto_compact_token_limit=105 "Measure the harbour wall"
session=$(grep -oE 'session id: [0-9a-f-]{36}' "$work/$name/said" | head -1 | cut -d' ' -f3)
script "tool get_research_session" 'tool memory_search {"query": "harbour wall"}' "say Recovered."
again() { # SESSION PROMPT OPTIONS…
    alone codex exec resume --skip-git-repo-check --dangerously-bypass-hook-trust \
        --dangerously-bypass-approvals-and-sandbox "${@:3}" "$1" "$2" >"$work/$name/said" 2>&1 ||
        fault "codex ended with $?"
}
again "$session" "Where were we"
script "say Hello."
turn "Something new"
alone "$program" "${place[@]}" events "$session" >"$work/$name/events" || fault "events"
project=$repository/src
script "$(step 1)" "$(step 2)" "say Two steps."
turn "Look at the walls"
begun=$(grep -oE 'session id: [0-9a-f-]{36}' "$work/$name/said" | head -1 | cut -d' ' -f3)
script "$(step 3)" "say Three steps."
again "$begun" "Go on"
research "$begun"
shop
edit() { # FILE OLD NEW
    printf 'own apply_patch "*** Begin Patch\\n*** Update File: %s\\n@@\\n-%s\\n+%s\\n*** End Patch\\n"' "$@"
}
write() { # FILE CONTENT
    printf 'own apply_patch "*** Begin Patch\\n*** Add File: %s\\n+%s\\n*** End Patch\\n"' "$@"
}
plan() { # DONE
    local at=0 listed=() state
    for step in "${steps[@]}"; do
        state=pending
        [ "$at" = "$1" ] && state=in_progress
        [ "$at" -lt "$1" ] && state=completed
        listed+=("{\"step\": \"$step\", \"status\": \"$state\"}")
        at=$((at + 1))
    done
    printf 'own update_plan {"plan": [%s]}' "$(IFS=,; printf '%s' "${listed[*]}")"
}
ask() { :; }
own=(-c model=gpt-5.5 -c tools.update_plan.enabled=true)
said=("${own[@]}")
more() { again "$working" "$1" "${own[@]}"; }
first() {
    turn "${own[@]}" "$1"
    working=$(grep -oE 'session id: [0-9a-f-]{36}' "$work/$name/said" | head -1 | cut -d' ' -f3)
}
work_in_the_shop
script "say Recovered."
compacting=(-c model_auto_compact_token_limit=105)
again "$working" "Where were we" "${own[@]}" "${compacting[@]}"
script "say Still there."
more "Go on"
shop_session
import_again "$home"/.codex/sessions/*/*/*/rollout-*"$working".jsonl
mkdir -p "$home/.codex/rules"
printf 'prefix_rule(pattern = ["git", "push"], decision = "forbidden", justification = "The release team pushes.")\n' \
    >"$home/.codex/rules/default.rules"
begin() { # PROMPTS…
    local options=()
    first "$1"
    day=$working
    printf '%s\n' "$day" >>"$work/$name/days"
    for prompt in "${@:2}"; do
        [ "$prompt" = /compact ] && options=("${compacting[@]}") && continue
        again "$day" "$prompt" "${own[@]}" "${options[@]}"
        options=()
    done
}
# The program itself, which codex only starts.
native=$(find -L "$cache/npm/node_modules/@openai" -path '*/bin/codex' -type f -perm -u+x | head -1)
killed_at() {
    killed "$native" exec resume --skip-git-repo-check --dangerously-bypass-hook-trust \
        --dangerously-bypass-approvals-and-sandbox "${own[@]}" "$day" "$1"
}
subagent() { :; }
clearing=()
three_days
alone "$program" uninstall codex --yes >"$work/$name/uninstalled" || fault "uninstall"
# It notes in the file what projects it trusts: that stays, with what was there.
grep -q sessionlog "$home/.codex/config.toml" && fault "we are still in config.toml"
"$python" tests/agents/check.py "$name" "$session" "$work/$name" | tee "$work/$name/checked" ||
    fault "the checks did not end"

[ -z "${AGENTS_KEEP:-}" ] || cp -r "$work" "$AGENTS_KEEP"
held=$(cat "$work"/*/*checked | grep -c '^ok ')
broken=$(cat "$work"/*/*checked | grep -c '^FAILED ')
printf 'agents: %d things held, %d did not\n' "$held" "$broken"
[ "$failed" = 0 ] && [ "$broken" = 0 ] && [ "$held" -ge 349 ]
