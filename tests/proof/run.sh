#!/usr/bin/env bash
# Runs the checks behind docs/guarantees.md and counts them: a table at the end, the same figures in
# one last line, and exit code 0 only if every requested part ran, every figure exists, and no event
# was lost.
#   tests/proof/run.sh               some hours: minutes of lives, every byte flipped, every call of
#                                    every sweep failed, every system call, 3 000 kills of each kind
#   tests/proof/run.sh --quick       the sample that `cargo test` takes, and orders of threads
#   tests/proof/run.sh lives mutants only these parts: lives mutants engine threads sanitizers faults
# SESSIONLOG_PROOF_SECONDS of lives (600) from SESSIONLOG_SEED (0) on; SESSIONLOG_SEEDS (400) of
# every other check, every SESSIONLOG_STRIDE-th byte (1) damaged; SESSIONLOG_INTERLEAVINGS (300)
# orders of threads, times four; SESSIONLOG_KILLS (3000), SESSIONLOG_CUTS (25) and
# SESSIONLOG_POINTS_STRIDE (1) for tests/faults/run.sh. On two dedicated cores lives take ten
# minutes, mutants and threads ten, the engine about an hour, sanitizers two, and faults four or
# more (added up from shorter runs). The long run fails if it has to skip a check.
set -uo pipefail
cd "$(dirname "$0")/../.."
export RUST_BACKTRACE=0 CARGO_TERM_COLOR=never
said=$(mktemp)
trap 'rm -f "$said"' EXIT

parts=()
long=yes
for word in "$@"; do
    case $word in
    --quick) long=no ;;
    --long) long=yes ;;
    lives | mutants | engine | threads | sanitizers | faults) parts+=("$word") ;;
    *)
        grep '^#   tests' "$0" >&2
        exit 2
        ;;
    esac
done
if [ "${#parts[@]}" = 0 ]; then
    parts=(lives mutants engine threads)
    [ "$long" = no ] || parts+=(sanitizers faults)
fi

wrong=()
part() { # its name, then its command
    local name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*" | tee -a "$said"
    "$@" 2>&1 | grep -vE '^(running|test result|input:|$)|^ +(Running|Finished|Compiling)' |
        tee -a "$said"
    [ "${PIPESTATUS[0]}" = 0 ] || wrong+=("$name failed")
}
number() { # the last number behind words at the start of a line; nothing when nobody said it
    grep -oE "^ *$1 +[0-9]+" "$said" | tail -1 | grep -oE '[0-9]+$'
}
rows=''
line=''
figure() { # its name and its value, which must be a number
    [[ ${2:-} =~ ^[0-9]+$ ]] || wrong+=("no figure for $1")
    line+=" $1=${2:--}"
}
row() { rows+="| $1 | $2 |"$'\n'; }
must() { # be equal
    [ "${2:-}" = "${3:-}" ] || wrong+=("$1: ${2:-nothing} and not ${3:-nothing}")
}

it=(cargo test --locked --no-default-features --test it)
if [ "$long" = yes ]; then
    it+=(--release)
    export SESSIONLOG_PROOF_SECONDS="${SESSIONLOG_PROOF_SECONDS:-600}"
    export SESSIONLOG_STRIDE="${SESSIONLOG_STRIDE:-1}"
    export SESSIONLOG_SEEDS="${SESSIONLOG_SEEDS:-400}"
fi

lives() {
    part lives "${it[@]}" -- proof:: --nocapture
    local name lives crashes lost=''
    lives=$(number 'simulated lives') crashes=$(number crashes)
    figure first_seed "$(number 'from seed')"
    figure lives "$lives"
    figure crashes "$crashes"
    for name in power_losses process_kills failing_calls acknowledged sent_again expired brought_back reclaimed; do
        figure "$name" "$(number "${name//_/ }")"
    done
    for name in lost phantoms duplicates; do
        figure "$name" "$(number $name)"
        must "$name" "$(number $name)" 0
        lost+=", $name $(number $name)"
    done
    row "lives of stores from seed $(number 'from seed') on" "$lives"
    row "crashes" "$crashes: $(number 'power losses') power losses, $(number 'process kills') kills"
    row "of them within a call of the engine" \
        "$(sed -nE 's/^ +died (.*[^ ]) +([0-9]+)$/\2 \1/p' "$said" | paste -sd, | sed 's/,/, /g')"
    row "calls that failed besides" "$(number 'failing calls')"
    row "sessions" "$(number expired) expired, $(number 'brought back') brought back, $(number reclaimed) went and their names were free"
    row "answers" "$(number acknowledged) acknowledged, $(number 'sent again') sent again; ${lost#, }"
}
mutants() {
    part mutants env SESSIONLOG_MUTANT_SEARCH=1 "${it[@]}" -- mutants:: --nocapture
    local planted caught
    planted=$(number planted)
    caught=$(sed -nE 's/^planted [0-9]+ caught ([0-9]+)$/\1/p' "$said" | tail -1)
    figure planted "$planted"
    figure caught "$caught"
    must 'planted and caught' "$caught" "$planted"
    figure closing_seeds "$(number 'seeds without a defect')"
    row "defects planted, seeds each needed" \
        "$(sed -nE 's/^planted (.*[^ ]) +caught after ([0-9]+) seeds$/\1 \2/p' "$said" |
            paste -sd, | sed 's/,/, /g')"
    row "planted and caught" "$planted and $caught; $(number 'seeds without a defect') seeds without one pass"
}
# Modules that sweep: over seeds, the calls of a story, or the bytes of a store.
sweeps=(crash:: damage:: tamper:: restart:: fuzz_seeds:: expiry:: forks:: notes:: nth:: rotated::
    repair:: store_repair:: redacted:: bodies:: erased:: deleted:: backup:: mortal:: strays:: peers::
    forward:: matrix:: encrypted:: healing:: scrub:: evicted::)
engine() {
    # A filter that matches no test would pass in silence.
    local known sweep
    known=$("${it[@]}" -- --list)
    for sweep in "${sweeps[@]}"; do
        grep -q "^$sweep" <<<"$known" || wrong+=("no test is in $sweep")
    done
    part engine env -u SESSIONLOG_SEED "${it[@]}" -- \
        "${sweeps[@]}" --nocapture
    local damages
    damages=$(sed -nE 's/^(.*)damages ([0-9]+)$/\2/p' "$said" |
        awk '{ all += $1 } END { if (NR) print all }')
    figure damages "$damages"
    row "bytes flipped, sectors zeroed, swapped and copied, files cut, shifted, put back and gone, in a small store" \
        "$damages: silent 0, other sessions hurt 0, files deleted 0"
}
threads() {
    RUSTFLAGS="--cfg shuttle" part threads cargo test --locked --no-default-features \
        --target-dir target/shuttle --test shuttle -- --nocapture
    local orders
    orders=$(sed -nE 's/^(.*)orders of threads ([0-9]+)$/\2/p' "$said" |
        awk '{ all += $1 } END { if (NR) print all }')
    figure orders "$orders"
    row "orders of the engine's threads" "$orders, none of which waits without end"
}
sanitizers() {
    part sanitizers tests/proof/sanitize.sh
    local which counts
    for which in memcheck miri asan fuzzed tsan; do
        counts=$(sed -nE "s/^sanitize: $which (.*)/\1/p" "$said" | tail -1)
        [ -n "$counts" ] || wrong+=("no word of $which")
        row "under $which" "${counts:-nothing}"
    done
}
faults() {
    local length=(SESSIONLOG_STRIDE="${SESSIONLOG_POINTS_STRIDE:-40}")
    [ "$long" = no ] || length=(SESSIONLOG_STRIDE="${SESSIONLOG_POINTS_STRIDE:-1}"
        SESSIONLOG_KILLS="${SESSIONLOG_KILLS:-3000}" SESSIONLOG_CUTS="${SESSIONLOG_CUTS:-25}")
    part faults env -u SESSIONLOG_SEED "${length[@]}" tests/faults/run.sh
    local counts
    counts=$(sed -nE 's/^faults: //p' "$said" | tail -1)
    case " $counts " in *' wrong=0 '*) ;; *) wrong+=('faults: something was wrong') ;; esac
    line+=" ${counts//passed=/faults_passed=}"
    row "faults of the real system" "$counts"
}

for name in "${parts[@]}"; do "$name"; done

passed=$(grep -cE '^test .* ok$' "$said")
failed=$(grep -cE '^test .* FAILED$|^FAILED' "$said")
[ "$failed" = 0 ] || wrong+=("$failed tests failed")
skipped=$(grep -cE 'SKIPPED' "$said")
[ "$long" = no ] || [ "$skipped" = 0 ] || wrong+=("$skipped skipped, and a long run skips nothing")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain -- src tests fuzz Cargo.toml Cargo.lock 2>/dev/null)" ] ||
    commit+='+changes'
result=passed
[ "${#wrong[@]}" = 0 ] || result=failed
printf '\n| proof of %s | figures |\n|---|---|\n%s' "$commit" "$rows"
printf '| tests | %s passed, %s failed, %s skipped |\n' "$passed" "$failed" "$skipped"
for name in "${wrong[@]}"; do printf 'WRONG: %s\n' "$name"; done
printf 'proof: commit=%s parts=%s%s passed=%s failed=%s skipped=%s result=%s\n' "$commit" \
    "$(IFS=+ && echo "${parts[*]}")" "$line" "$passed" "$failed" "$skipped" "$result"
[ "$result" = passed ]
