#!/usr/bin/env python3
"""demo_check.py FOLDER: whether the cells of the demo's sweep did what is expected of them.

Prints the run folder with the lowest validation loss to standard output and everything else to
standard error. Exits 1 if an outcome is not as stated."""

import json
import pathlib
import sys

# Wiring, layers, warm-up: the outcome at every seed.
EXPECTED = {
    ("post-ln", 6, 0): "stalled",
    ("post-ln", 6, 100): "learned",
    ("pre-ln", 6, 0): "learned",
    ("pre-ln", 6, 100): "learned",
    ("post-ln", 12, 100): "stalled",
    ("deepnorm", 12, 100): "learned",
}


def main():
    sweep = json.loads((pathlib.Path(sys.argv[1]) / "sweep.json").read_text())
    wrong = []
    found = {}
    for cell in sweep["cells"]:
        key = (cell["wiring"], cell["layers"], cell["warmup"])
        found[key] = [seed["outcome"] for seed in cell["seeds"]]
    for key, outcome in EXPECTED.items():
        name = "{}, layers {}, warmup {}".format(*key)
        if found.get(key) != [outcome] * 3:
            wrong.append(f"{name}: expected {outcome} at 3 of 3 seeds, got {found.get(key)}")
    h1 = sweep["unigram_entropy"]
    if h1 is None or abs(h1 - 3.020) > 0.005:
        wrong.append(f"unigram entropy: expected 3.020, got {h1}")
    for line in wrong:
        print("demo: " + line, file=sys.stderr)
    if not wrong:
        print("demo: all six cells did what was expected", file=sys.stderr)
    seeds = [seed for cell in sweep["cells"] for seed in cell["seeds"] if seed["outcome"] == "learned"]
    if seeds:
        print(min(seeds, key=lambda seed: seed["val_loss"])["run"])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
