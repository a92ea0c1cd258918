#!/usr/bin/env bash
# The codecs under Miri, and what the fuzzer was given under AddressSanitizer. Both need a nightly
# toolchain; what is not installed is said, and skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
failed=0
if cargo +nightly miri --version >/dev/null 2>&1; then
    # Chains and compression call C, which Miri cannot run; their tests are left out by name.
    BLAKE3_NO_ASM=1 MIRIFLAGS="-Zmiri-disable-isolation" CARGO_PROFILE_TEST_DEBUG_ASSERTIONS=true \
        cargo +nightly miri test --no-default-features --target-dir target/miri --lib -- \
        log:: event:: --skip seal --skip compress --skip chain || failed=1
else
    echo "SKIPPED: Miri (rustup +nightly component add miri rust-src)"
fi
if cargo +nightly fuzz --version >/dev/null 2>&1; then
    for target in frame recover store wire; do
        cargo +nightly fuzz run "$target" "fuzz/seeds/$target" -- -runs=0 || failed=1
        [ "${FUZZ_SECONDS:-0}" = 0 ] || mkdir -p "fuzz/corpus/$target"
        [ "${FUZZ_SECONDS:-0}" = 0 ] || cargo +nightly fuzz run "$target" "fuzz/corpus/$target" \
            "fuzz/seeds/$target" -- -max_total_time="$FUZZ_SECONDS" || failed=1
    done
else
    echo "SKIPPED: AddressSanitizer (cargo install cargo-fuzz, with a nightly toolchain)"
fi
exit "$failed"
