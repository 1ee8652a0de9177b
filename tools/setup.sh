#!/usr/bin/env bash
# setup.sh GROUP..: installs the groups of tools/packages.txt that are not installed yet, and the npm
# packages of web/ for the group `build`. Uses the network only where something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

declare -A pin=()
missing=()
want() {
  local package=$1 version=${2:-}
  if installed "$package" || [ -n "${pin[$package]+seen}" ]; then return; fi
  pin[$package]=$version
  missing+=("$package")
}

for group in "$@"; do
  while read -r in_group package version; do
    if [ "$in_group" = "$group" ]; then want "$package" "$version"; fi
  done < <(grep -v '^#' tools/packages.txt)
  # Node.js may come from elsewhere than Debian, whose npm would then not install.
  if [ "$group" = build ] && [ -f web/package.json ] && ! command -v npm >/dev/null; then
    command -v node >/dev/null || want nodejs '18.*'
    want npm '9.2.*'
  fi
done

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update
  names=()
  for package in "${missing[@]}"; do
    name=$package
    if [ -n "${pin[$package]}" ]; then
      name="$package=${pin[$package]}"
      if ! apt-get -q -s --no-install-recommends install "$name" >/dev/null 2>&1; then
        echo "setup: notice: no $package in version ${pin[$package]}, taking the archive's"
        name=$package
      fi
    fi
    names+=("$name")
  done
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${names[@]}"
fi

for group in "$@"; do
  if [ "$group" != build ] || [ ! -f web/package.json ]; then continue; fi
  if [ web/node_modules/.package-lock.json -nt web/package-lock.json ]; then continue; fi
  echo "setup: npm ci in web/"
  (cd web && npm ci --prefer-offline --no-audit --no-fund)
  touch web/node_modules/.package-lock.json
done
