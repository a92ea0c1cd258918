#!/usr/bin/env bash
# Makes the pictures of the README anew: docs/page-session.png, docs/page-plots.png,
# docs/request-before.png, docs/request-after.png and docs/player.png, from the example session of
# tests/page/stores.mjs.
# tests/page/pictures.sh [PROGRAM]; it needs chromium, npm and tmux.
set -euo pipefail
cd "$(dirname "$0")"
command -v tmux >/dev/null || { echo "tmux is not installed"; exit 3; }
export PAGE_ENTRY=pictures.mjs PAGE_DOCS=$PWD/../../docs
exec ./run.sh "$@"
