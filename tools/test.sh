#!/usr/bin/env bash
# The whole test run, part by part: a part that fails does not hide the ones after it, except that a
# build that fails takes its own tests with it. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
results=build/results
rm -rf "$results"
mkdir -p "$results"

# part NAME COMMAND..: runs it, records its time; its status is that of the command.
part() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  printf '%-32s %5d s%s\n' "$name" $((SECONDS - start)) "$([ $status -eq 0 ] || echo '  failed')" \
    >>"$results/times.txt"
  return $status
}
# A build that fails counts as one failed test.
build() {
  local preset=$1
  shift
  part "build $preset" tools/build.sh "$preset" "$jobs" "$@" || {
    tools/run_tests.py --record-failure "$results/$preset" "build of $preset failed"
    return 1
  }
}
run() {
  local preset=$1
  shift
  part "tests $preset" tools/run_tests.py "build/$preset" --results "$results/$preset" \
    --jobs "$jobs" "$@"
}

# The form of the sources, judged as one more test.
form() {
  git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs clang-format-19 --dry-run -Werror
}
part "format" form || tools/run_tests.py --record-failure "$results/format" "run make format"

build release && run release
# Training, speed and memory limits mean nothing, or take minutes, under the sanitizers.
build dev addnorm_tests && run dev --skip Training,Speed,MemoryLimit
build tsan addnorm_tests && run tsan --only '*Threads*'

echo
cat "$results/times.txt"
printf '%-32s %5d s\n' total "$SECONDS"
exec tools/run_tests.py --summary "$results"
