// A program that behaves like the training verb as far as a sweep can see, and what it is told to do
// by the "wiring": good, stuck, boom (non-finite), crash, slow (and stops at SIGINT with a checkpoint).
#pragma once

#include <filesystem>
#include <fstream>

namespace addnorm::test {

inline std::filesystem::path make_fake_program(const std::filesystem::path& folder) {
  const auto path = folder / "fake_addnorm";
  std::ofstream(path) << R"(#!/bin/sh
verb=$1; shift
echo "$verb $*" >> "$(dirname "$0")/calls"
if [ $verb = resume ]; then run=$1; shift; . "$run/state"; from=$(cat "$run/last"); else
  shift; from=0; wiring=good; steps=40
  while [ $# -gt 0 ]; do
    case $1 in
      --run) run=$2 ;; --model.wiring) wiring=$2 ;; --train.steps) steps=$2 ;;
    esac
    shift 2
  done
  mkdir -p "$run"
  echo "wiring=$wiring steps=$steps" > "$run/state"
  echo '{"event":"note","text":"data","unigram_entropy":3.0,"bigram_entropy":2.3}' > "$run/metrics.jsonl"
  echo '{"event":"step","step":0,"loss":5.5,"tokens":0,"seconds":0}' >> "$run/metrics.jsonl"
fi
checkpoint() { mkdir -p "$run/checkpoints/$1"; : > "$run/checkpoints/$1/DONE"; echo $1 > "$run/last"; }
trap 'checkpoint $i; exit 0' INT
i=$from
[ $wiring = crash ] && { echo "error [disk] expected space, got none" >&2; exit 4; }
while [ $i -lt $steps ]; do
  i=$((i + 1))
  case $wiring in stuck) loss=2.99 ;; *) loss=2.0 ;; esac
  if [ $wiring = boom ] && [ $i = 5 ]; then
    echo "{\"event\":\"step\",\"step\":$i,\"loss\":\"nan\",\"grad_norm\":\"inf\",\"seconds\":1}" >> "$run/metrics.jsonl"
    exit 3
  fi
  echo "{\"event\":\"step\",\"step\":$i,\"loss\":$loss,\"lr\":0.005,\"grad_norm\":1,\"tokens\":$i,\"seconds\":$i}" >> "$run/metrics.jsonl"
  [ $wiring = slow ] && sleep 0.05
done
echo "{\"event\":\"eval\",\"step\":$i,\"val_loss\":$loss}" >> "$run/metrics.jsonl"
checkpoint $i
)";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace addnorm::test
