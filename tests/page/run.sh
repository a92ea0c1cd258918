#!/usr/bin/env bash
# The page in a real browser, over stores of the test's own: every screen in both themes at two
# widths, hostile text in every field, 100 000 events, an agent at work while its server dies, tokens.
# And the page as it ships is what its sources build, byte for byte.
# tests/page/run.sh [PROGRAM]: the program under test, else SESSIONLOG_PROGRAM, else the one built
# here. PAGE_PICTURES names a directory for the pictures, PAGE_ONLY the checks to run (screens,hostile),
# PAGE_URL a server that runs already, whose store takes the test's sessions; what needs a server of
# the test's own is left out then, PAGE_ENTRY another script than main.mjs. CHROMIUM is the browser's path.
# Exit code: 0 when all held, 1 when not, 3 when it could not run.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ -z "${1:-}" ] || export SESSIONLOG_PROGRAM=$1
. tests/conformance/tools.sh
command -v npm >/dev/null || skip "npm is not installed"
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
[ -x "$browser" ] || skip "chromium is not installed"

# What a lock file names is in the cache, as it names it.
locked() { # DIRECTORY NAME
    local kept=$cache/page/$2
    if ! cmp -s "$1/package-lock.json" "$kept/.has"; then
        printf 'installing %s\n' "$2"
        rm -rf "$kept"
        mkdir -p "$kept"
        cp "$1/package.json" "$1/package-lock.json" "$kept/"
        (cd "$kept" && npm ci --no-audit --no-fund --loglevel=error) >"$work/npm.log" 2>&1 ||
            { tail -5 "$work/npm.log"; skip "npm cannot install what $1 needs"; }
        cp "$1/package-lock.json" "$kept/.has"
    fi
}
alone_in_cache locked tests/page tests
alone_in_cache locked src/page/app app

# The sources make what ships.
mkdir -p "$work/page/app"
cp -r src/page/app/src src/page/app/*.json src/page/app/build.mjs "$work/page/app/"
ln -s "$cache/page/app/node_modules" "$work/page/app/node_modules"
(cd "$work/page/app" && npx --no-install tsc --noEmit && node build.mjs) || { echo "the page does not build"; exit 1; }
for file in index.html app.js app.css; do
    cmp "$work/page/dist/$file" "src/page/dist/$file" ||
        { echo "src/page/dist is not what its sources build: npm ci && npm run build in src/page/app"; exit 1; }
done
echo "src/page/dist is what its sources build"

if [ -z "${PAGE_URL:-}" ]; then
    built
    export PAGE_PROGRAM=$program
    # Two nodes share it. Without one only the check of nodes is left out.
    if database; then export PAGE_STORE=$store; else echo "no PostgreSQL is installed: no check of nodes"; fi
fi
mkdir -p "$work/tests" "${PAGE_PICTURES:=$work/pictures}"
cp tests/page/*.mjs "$work/tests/"
ln -s "$cache/page/tests/node_modules" "$work/tests/node_modules"
export PAGE_PICTURES PAGE_WORK=$work CHROMIUM=$browser
node "$work/tests/${PAGE_ENTRY:-main.mjs}"
