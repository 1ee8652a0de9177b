#!/usr/bin/env bash
# demo.sh PROGRAM [FOLDER]: six cells at three seeds on real text, then the table, the outcome in words,
# a sample of the best model and the report. Exits 1 if a cell did not do what is stated in
# tools/demo_check.py. What is finished in FOLDER (runs/demo) is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 folder=${2:-runs/demo}
tools/kjv.sh
# A published rule is replaced by [init] default in recipes/demo.toml, so DeepNorm's is given again.
gain='xavier_normal((8*L)^(-1/4))'
"$program" sweep recipes/demo.toml --run "$folder" --seeds 3 \
  --wiring post-ln --wiring pre-ln --train.warmup 0,100 \
  --cell "wiring=post-ln model.layers=12 train.warmup=100" \
  --cell "wiring=deepnorm model.layers=12 train.warmup=100 init.v=$gain init.attn_out=$gain init.ffn_in=$gain init.ffn_out=$gain"
status=0
best=$(tools/demo_check.py "$folder") || status=$?
[ -n "$best" ] || exit 1
echo
echo "A sample of the best model, $folder/$best:"
"$program" generate "$folder/$best" --prompt 'And the LORD said ' --tokens 240 --temperature 0.8
echo
echo "The report is $folder/report.html: open it in a browser, it needs no network."
exit $status
