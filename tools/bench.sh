#!/usr/bin/env bash
# bench.sh BUILD [PYTHON]: every benchmark program of the build, one after the other, then the same
# training steps in PyTorch where PYTHON is an interpreter that has it.
set -euo pipefail
build=$1
pytorch=${2:-}
shopt -s nullglob
programs=("$build"/bench/bench_*)
if [ ${#programs[@]} -eq 0 ]; then
  echo "bench: no benchmark program below $build/bench" >&2
  exit 1
fi
for program in "${programs[@]}"; do
  if [ -f "$program" ] && [ -x "$program" ]; then "$program"; fi
done
if [ -n "$pytorch" ]; then "$pytorch" "$(dirname "$0")/../bench/pytorch_step.py"; fi
