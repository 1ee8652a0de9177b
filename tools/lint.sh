#!/usr/bin/env bash
# clang-format and clang-tidy on the files changed since BASE (default: where this branch left
# origin/main, else the commit before HEAD), or on every file with ALL=1.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

if [ -n "${ALL:-}" ]; then
  mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp')
else
  base=${BASE:-}
  if [ -z "$base" ]; then
    base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)
  fi
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp'
    git ls-files -o --exclude-standard '*.h' '*.cpp'
  } | sort -u)
fi
if [ ${#files[@]} -eq 0 ]; then
  echo "lint: no changed file"
  exit 0
fi

echo "lint: clang-format on ${#files[@]} files"
status=0
clang-format-19 --dry-run -Werror "${files[@]}" || status=1

# A header is judged where it is included: through its own source file, if it has one.
if [ ! -f build/release/compile_commands.json ]; then cmake --preset release --log-level=WARNING; fi
units=()
for file in "${files[@]}"; do
  unit=${file%.h}
  unit=${unit%.cpp}.cpp
  if grep -qF "/$unit\"" build/release/compile_commands.json; then units+=("$PWD/$unit"); fi
done
if [ ${#units[@]} -eq 0 ]; then exit "$status"; fi
mapfile -t units < <(printf '%s\n' "${units[@]}" | sort -u)
echo "lint: clang-tidy on ${#units[@]} files"
printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy-19 -p build/release --quiet \
  --extra-arg=-Wno-unknown-warning-option || status=1
exit "$status"
