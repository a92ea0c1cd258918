#!/usr/bin/env bash
# Runs the fault tests on the real system, and prints their figures in one last line:
#   faults: passed=12 skipped=0 kills=30 stream_kills=30 work_kills=30 deaths=5 points=60 power_cuts=8 answers_traced=329 acknowledged=9000 wrong=0
# SESSIONLOG_KILLS, SESSIONLOG_CUTS and SESSIONLOG_STRIDE decide how long it takes: 3000, 50 and 1
# are the long run, 30, 4 and 60 the usual one. SESSIONLOG_BINARY tests another build.
set -uo pipefail
cd "$(dirname "$0")/../.."
said=$(mktemp)
trap 'rm -f "$said"' EXIT
RUST_BACKTRACE=0 cargo test --locked --test faults -- --nocapture 2>&1 | tee "$said"
result=${PIPESTATUS[0]}
sum() { # of the numbers behind a word
    grep -oE "$1 [0-9]+" "$said" | awk '{ all += $NF } END { print all + 0 }'
}
count() { grep -cE "$1" "$said" || true; }
passed=$(grep -oE '[0-9]+ passed' "$said" | awk '{ all += $1 } END { print all + 0 }')
failed=$(grep -oE '[0-9]+ failed' "$said" | awk '{ all += $1 } END { print all + 0 }')
echo "faults: passed=$passed failed=$failed skipped=$(count '^SKIPPED|SKIPPED: ')" \
    "kills=$(sum kills) stream_kills=$(sum 'kills under streams') work_kills=$(sum 'kills under work') deaths=$(sum deaths) points=$(sum points)" \
    "power_cuts=$(sum 'power cuts') answers_traced=$(sum 'events answered')" \
    "acknowledged=$(sum acknowledged) wrong=$(sum wrong)"
exit "$result"
