#!/usr/bin/env python3
"""strings_from_mo.py MO_FOLDER OUT_FOLDER: pairs of source and translation from gettext .mo files.

A message's id is context, byte 4, source. Pairs are distinct; strings with line breaks or tabs, empty ones
and those longer than 120 characters are left out. The split goes by source in a normal form (lower case,
without accelerator marks and punctuation), so that no validation source stands in the training part in
another spelling; a split by entry leaks two fifths."""

import hashlib
import pathlib
import struct
import sys


def messages(data):
    little = data[:4] == b"\xde\x12\x04\x95"
    if not little and data[:4] != b"\x95\x04\x12\xde":
        raise ValueError("expected a .mo file")
    order = "<" if little else ">"
    count, sources, translations = struct.unpack_from(order + "3I", data, 8)
    for i in range(count):
        pair = []
        for table in (sources, translations):
            length, offset = struct.unpack_from(order + "2I", data, table + 8 * i)
            pair.append(data[offset : offset + length].decode("utf-8"))
        yield pair


def normal(text):
    return "".join(c for c in text.lower() if c.isalnum() or c == " ").strip()


def main():
    out = pathlib.Path(sys.argv[2])
    pairs = set()
    total = 0
    for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.mo")):
        for message, translation in messages(file.read_bytes()):
            source = message.split("\x04", 1)[-1].split("\x00")[0]
            translation = translation.split("\x00")[0]
            total += 1
            good = all(0 < len(t) <= 120 and not any(c in t for c in "\t\n\r") for t in (source, translation))
            if good and normal(source) and message:
                pairs.add((source, translation))
    parts = {"train": [], "valid": []}
    for source, translation in sorted(pairs):
        digest = hashlib.sha256(normal(source).encode()).digest()
        parts["valid" if digest[0] < 26 else "train"].append(f"{source}\t{translation}\n")  # 10 %
    for name, lines in parts.items():
        (out / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"{total} messages, {len(pairs)} distinct pairs: {len(parts['train'])} to train on, "
          f"{len(parts['valid'])} held out")


if __name__ == "__main__":
    main()
