# Sourced by run.sh: three days of one small project. On the first a task with rules, a plan, a
# failing test, a mended one, a refused call, a reverted file and an item of memory; on the second a
# compaction, a commit, a crash, work after it and a tiny run; on the third, after an import of all
# transcripts, a session that clears its context. days.py writes what the model was given to
# AGENT/given, a file each, and looks at it. An agent's section of run.sh says how a session begins
# (begin) and how the one of today is continued by a process that is killed (killed_at).
# It must not kill what it did not start.

# What the model is given from here on belongs to this point.
point() { printf '%s %s\n' "$(wc -l <"$log")" "$1" >>"$work/$name/points"; }
commit() { printf 'bash git commit --quiet --all --message "%s"' "$1"; }
# Runs an agent until its call of soak.sh runs, and kills it.
killed() { # COMMAND…
    (cd "$project" && exec env -i PATH="$PATH" HOME="$home" LANG=C.UTF-8 "${shell[@]}" "$@" \
        </dev/null >"$work/$name/said" 2>&1) &
    local pid=$!
    started+=("$pid")
    for _ in $(seq 300); do
        [ -e "$work/$name/soaking" ] && break
        sleep 0.1
    done
    [ -e "$work/$name/soaking" ] || fault "the call in which it is killed did not begin"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    touch "$work/$name/killed"
}
first_day() {
    script "$(plan 0)" "words Let me look at the tests first." "bash $pytest -q" \
        "say Two tests fail: the price is cut and the tax is rounded down." \
        "words The float cuts 1.15 to 114, so the text itself must be read." \
        "$(edit price.py '    return int(float(text) * 100)' "    return int(text.replace('.', ''))")" \
        "bash $pytest -q test_price.py::Test::test_price" "$(plan 1)" \
        "$(edit stock.py 'LEFT = 3' 'LEFT = 4')" "words stock.py is not ours: I take that back." \
        "bash git checkout --quiet stock.py" \
        'tool memory_insert {"kind": "semantic", "text": "Receipts are printed in CHF: the tax office accepts no other currency."}' \
        "$(commit "Read prices without floats")" "bash git push origin main" \
        "say Prices are read as text now. The tax is still rounded down, and nothing is pushed."
    point day-1
    begin "Make the shop count money in cents, never in floats. Leave stock.py alone, another team owns it." \
        "Start with the prices, their commit names no ticket"
}
second_day() {
    script "bash sed -i 's/RATE = 7/RATE = 19/' tax.py" \
        "$(edit tax.py '    return cents * RATE // 100' '    return (cents * RATE + 50) // 100')" \
        "bash $pytest -q" "$(plan 2)" "say The tax is rounded half up, both tests pass." \
        "say Recovered." "tool get_research_session" "say The tax is done, receipts are next."
    point day-2
    begin "Round the tax half up, its rate is 19 percent" /compact "Where were we" "Which step is next?"
    script "$(edit cart.py '    return 0.0 + sum(prices)' '    return sum(prices)')" \
        "$(commit "Round the tax half up")" "words The tax is committed; the soak run shows whether carts add up." \
        "bash sh soak.sh"
    point killed
    killed_at "Commit the tax, then run soak.sh"
}
after_the_crash() {
    script "tool get_research_session" "$(subagent)" \
        "$(write receipt.py 'def line(cents): return str(cents)')" \
        "say receipt.py prints cents. The soak run is still to be done."
    point crash
    begin "Print receipts in cents"
    script "say Prices and tax are counted in cents from this release on."
    point tiny
    begin "Write a release note"
}
third_day() {
    days_left before
    import_days
    days_left after
    script "tool get_research_session" "say The soak run is next." \
        "tool get_research_session" "say Another team."
    point day-3
    begin "What is left to do?" "${clearing[@]}"
}
# What is left of the days: a file with the events of each session, and their list.
days_left() { # NAME
    alone "$program" "${place[@]}" sessions --json --workspace "$project" \
        >"$work/$name/days.$1" || fault "sessions"
    mkdir -p "$work/$name/days-$1"
    for session_of in $(sort -u "$work/$name/days"); do
        alone "$program" "${place[@]}" events "$session_of" \
            >"$work/$name/days-$1/$session_of" || fault "events"
    done
}
import_days() {
    local transcripts=()
    for session_of in $(sort -u "$work/$name/days"); do
        transcripts+=($(find "$home/.claude" "$home/.codex" -name "*$session_of.jsonl" 2>/dev/null))
    done
    alone "$program" "${place[@]}" import "${transcripts[@]}" \
        >"$work/$name/days-imported" 2>&1 || fault "import"
}
three_days() {
    project=$work/$name/till
    mkdir -p "$project"
    cat >"$project/soak.sh" <<'SOAK'
touch ../soaking
for _ in $(seq 100); do [ -e ../killed ] && exit 0; sleep 0.1; done
SOAK
    shop till
    alone git config user.name shop
    alone git config user.email shop@localhost
    first_day
    second_day
    after_the_crash
    third_day
    import_days
    days_left again
    "$python" tests/agents/days.py "$name" "$work/$name" | tee "$work/$name/days-checked" ||
        fault "the checks of the days did not end"
}
