#!/usr/bin/env bash
# build.sh PRESET JOBS [TARGET..]: configures build/PRESET where that has not been done, then builds.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
# One cache serves every clone of the tree: paths count relative to the build folder.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-/} CCACHE_NOHASHDIR=1
shift 2
if [ ! -f "build/$preset/build.ninja" ]; then cmake --preset "$preset" --log-level=WARNING; fi
exec cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
