#!/usr/bin/env bash
# Runs the codecs and the fuzz corpus under valgrind's memcheck, the codecs under Miri, the engine and
# the fuzz corpus under AddressSanitizer, and the commit path under ThreadSanitizer: one line
# `sanitize: NAME …` each. All but the first need a nightly toolchain, with miri and rust-src for Miri
# and ThreadSanitizer, with cargo-fuzz for the fuzzer; a missing tool is reported, and its run skipped.
#   FUZZ_SECONDS=60   also fuzzes each target for that many seconds
#   tests/proof/sanitize.sh miri fuzzed  only these: memcheck miri asan fuzzed tsan
set -uo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
failed=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
run() { # a command, whose words are kept
    "$@" 2>&1 | tee "$said" | grep -vE '^ +(Compiling|Finished|Running|Blocking)'
    return "${PIPESTATUS[0]}"
}
verdict() { # name, exit code, figures
    [ "$2" = 0 ] || failed=1
    echo "sanitize: $1 $([ "$2" = 0 ] && echo passed || echo FAILED), $3"
}
passed() { sed -nE 's/^test result: [A-Za-z]+\. ([0-9]+) passed.*/\1/p' "$said" | awk '{ all += $1 } END { print all + 0 }'; }

memcheck() { # the usual build, and C's compression, too: minutes, where the others take an hour
    valgrind --version >/dev/null 2>&1 || { echo "sanitize: memcheck SKIPPED (apt install valgrind)"; return; }
    local host runner result=0 tests
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    runner='valgrind -q --error-exitcode=9 --errors-for-leak-kinds=none'
    run env "CARGO_TARGET_${host}_RUNNER=$runner" cargo test --locked --no-default-features --lib -- \
        log:: event:: --test-threads 1 || result=1
    tests=$(passed)
    run env "CARGO_TARGET_${host}_RUNNER=$runner" cargo test --locked --no-default-features --test it -- \
        fuzz_seeds:: --test-threads 1 || result=1
    verdict memcheck "$result" "$tests tests of codecs, $(passed) of the fuzzer's inputs"
}

miri() {
    cargo +nightly miri --version >/dev/null 2>&1 ||
        { echo "sanitize: miri SKIPPED (rustup +nightly component add miri rust-src)"; return; }
    # Compression calls C, which Miri cannot run, and files of more than a megabyte take it half an
    # hour each; these tests are left out by name.
    BLAKE3_NO_ASM=1 MIRIFLAGS=-Zmiri-disable-isolation run cargo +nightly miri test --locked \
        --no-default-features --target-dir target/miri --lib -- log:: event:: \
        --skip seal --skip compress --skip chain --skip a_generation
    verdict miri $? "$(passed) tests of codecs"
}

asan() {
    local host tests=0 result=0
    host=$(rustc +nightly -vV 2>/dev/null | sed -n 's/^host: //p')
    [ -n "$host" ] || { echo "sanitize: asan SKIPPED (rustup toolchain install nightly)"; return; }
    # Everything but what runs the same lives again and again.
    RUSTFLAGS="-Zsanitizer=address" run cargo +nightly test --locked --target "$host" \
        --no-default-features --target-dir target/asan --lib --test it -- \
        --skip mutants:: --skip proof:: || result=1
    tests=$(passed)
    verdict asan "$result" "$tests tests of the engine"
}

fuzzed() {
    cargo +nightly fuzz --version >/dev/null 2>&1 ||
        { echo "sanitize: fuzzed SKIPPED (cargo install cargo-fuzz, with a nightly toolchain)"; return; }
    local target inputs=0 result=0 corpus
    for target in $(cargo +nightly fuzz list); do
        run cargo +nightly fuzz run "$target" "fuzz/seeds/$target" -- -runs=0 || result=1
        inputs=$((inputs + $(find "fuzz/seeds/$target" -type f | wc -l)))
        if [ "${FUZZ_SECONDS:-0}" != 0 ]; then
            corpus="fuzz/corpus/$target"
            mkdir -p "$corpus"
            run cargo +nightly fuzz run "$target" "$corpus" "fuzz/seeds/$target" -- \
                -max_total_time="$FUZZ_SECONDS" -print_final_stats=1 || result=1
            grep -E 'number_of_executed_units' "$said" | sed "s/^/$target /"
        fi
    done
    verdict fuzzed "$result" "$inputs inputs of the fuzzer"
}

tsan() {
    rustup +nightly component list 2>/dev/null | grep -q '^rust-src.*(installed)' ||
        { echo "sanitize: tsan SKIPPED (rustup +nightly component add rust-src)"; return; }
    local host
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    # What C does is not seen, so its fences would be missed; there are none on the way of a commit.
    RUSTFLAGS="-Zsanitizer=thread" run cargo +nightly test --locked -Zbuild-std --target "$host" \
        --no-default-features --target-dir target/tsan --test it -- store:: a_failed_flush --test-threads 2
    verdict tsan $? "$(passed) tests of stores under many threads"
}

for name in "${@:-memcheck miri asan fuzzed tsan}"; do
    for one in $name; do "$one"; done
done
exit "$failed"
