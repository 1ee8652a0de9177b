#!/usr/bin/env bash
# bench.sh BUILD: every benchmark program of the build, one after the other.
set -euo pipefail
build=$1
shopt -s nullglob
programs=("$build"/bench/bench_*)
if [ ${#programs[@]} -eq 0 ]; then
  echo "bench: no benchmark program below $build/bench" >&2
  exit 1
fi
for program in "${programs[@]}"; do
  if [ -f "$program" ] && [ -x "$program" ]; then "$program"; fi
done
