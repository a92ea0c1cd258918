#!/usr/bin/env bash
# What docs/guarantees.md promises of the engine, tried and counted: one line of counts at the end.
#   tests/proof/run.sh          minutes: SESSIONLOG_PROOF_SECONDS of lives (600), every byte flipped
#   tests/proof/run.sh --quick  the sample that `cargo test` takes
# SESSIONLOG_SEED is the first seed of the lives, SESSIONLOG_INTERLEAVINGS how many orders of threads.
set -uo pipefail
cd "$(dirname "$0")/../.."
export RUST_BACKTRACE=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
part() {
    printf '\n== %s\n' "$*" | tee -a "$said"
    "$@" 2>&1 | grep -vE '^(running|test result|$)|^ +Running|^ +Finished|^ +Compiling' |
        tee -a "$said"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=1
}
it=(cargo test --locked --no-default-features --test it)
if [ "${1:-}" != --quick ]; then
    it+=(--release)
    export SESSIONLOG_PROOF_SECONDS="${SESSIONLOG_PROOF_SECONDS:-600}"
    export SESSIONLOG_STRIDE="${SESSIONLOG_STRIDE:-1}"
    export SESSIONLOG_SEEDS="${SESSIONLOG_SEEDS:-400}"
fi
part "${it[@]}" -- proof:: --nocapture
part "${it[@]}" -- mutants:: --nocapture
part "${it[@]}" -- crash:: damage:: tamper:: restart:: fuzz_seeds:: --nocapture
RUSTFLAGS="--cfg shuttle" part cargo test --locked --no-default-features \
    --target-dir target/shuttle --test shuttle
if [ "${1:-}" != --quick ]; then
    part tests/proof/sanitize.sh
    part tests/faults/run.sh
fi
number() { # the last number behind words
    grep -oE "$1 +[0-9]+" "$said" | tail -1 | grep -oE '[0-9]+$' || echo 0
}
printf '\nproof: lives=%s crashes=%s power_losses=%s kills=%s acknowledged=%s lost=%s' \
    "$(number 'simulated lives')" "$(number crashes)" "$(number 'power losses')" \
    "$(number 'process kills')" "$(number acknowledged)" "$(number '^ +lost')"
printf ' phantoms=%s duplicates=%s planted=%s caught=%s damages=%s passed=%s failed=%s\n' \
    "$(number phantoms)" "$(number duplicates)" "$(number '^planted')" \
    "$(grep -oE '^planted [0-9]+ caught [0-9]+' "$said" | grep -oE '[0-9]+$' || echo 0)" \
    "$(grep -oE '^damages [0-9]+' "$said" | awk '{ all += $2 } END { print all + 0 }')" \
    "$(grep -cE '^test .* ok$' "$said")" "$(grep -cE 'FAILED' "$said")"
exit "$failed"
