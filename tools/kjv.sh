#!/usr/bin/env bash
# kjv.sh [FILE]: the King James Bible, one verse a line without references, as the demo's text. Made by
# the programs of Debian's bible-kjv and bible-kjv-text; nothing happens where FILE is right already.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-build/data/kjv.txt}
size=4137850
sum=b5c4940bcfeee072c0935b5200d0f9d88a00a0199cb0961d16133458fcdfae5d
right() { [ -f "$1" ] && [ "$(stat -c %s "$1")" = $size ] && echo "$sum  $1" | sha256sum -c --status; }

if right "$file"; then exit 0; fi
command -v bible >/dev/null || { echo "kjv.sh: expected the program bible; run make setup" >&2; exit 2; }
mkdir -p "$(dirname "$file")"
empty=$(mktemp -d)  # bible reads files of certain names from its folder
trap 'rm -rf "$empty"' EXIT
(cd "$empty" && bible -f -l100000 gen1:1-rev22:21 </dev/null) | sed -E 's/^[^ ]+ //' >"$file.new"
if ! right "$file.new"; then
  echo "kjv.sh: expected $size bytes with SHA-256 $sum, got $(stat -c %s "$file.new") bytes with" \
    "$(sha256sum <"$file.new" | cut -d' ' -f1); another version of bible-kjv-text?" >&2
  exit 1
fi
mv "$file.new" "$file"
