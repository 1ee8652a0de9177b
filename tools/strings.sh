#!/usr/bin/env bash
# strings.sh [FOLDER]: English and German strings of LibreOffice as tab-separated pairs, train.tsv and
# valid.tsv in FOLDER (build/data/strings). From Debian's package libreoffice-l10n-de (MPL-2.0), which is
# unpacked, not installed; it is fetched only where the files are not there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/data/strings}
if [ -s "$folder/train.tsv" ] && [ -s "$folder/valid.tsv" ]; then exit 0; fi
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$PWD
chmod 755 "$work"
(cd "$work" && apt-get -q download libreoffice-l10n-de >apt.log 2>&1) || { cat "$work/apt.log" >&2; exit 4; }
dpkg -x "$work"/libreoffice-l10n-de_*.deb "$work/unpacked"
"$here/tools/strings_from_mo.py" "$work/unpacked" "$folder"
