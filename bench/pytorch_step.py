#!/usr/bin/env python3
"""The training steps of training_bench.cpp in PyTorch, for a ratio on one machine in one run.

PyTorch is no dependency of addnorm: `make bench PYTORCH=python` names an interpreter that has it.
Each model is written as one would in PyTorch for speed: fused QKV, scaled_dot_product_attention,
cross_entropy over all logits, fused AdamW. Prints the best of the steps in milliseconds.
"""
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit(f"pytorch_step.py: {sys.executable} has no torch; try a virtual environment with it")


class Block(nn.Module):
    """Pre-LN: x = x + f(norm(x)), for attention and feed-forward."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """A decoder with learned positions and a tied head."""

    def __init__(self, width, layers, heads, length, vocab):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def measure(name, width, layers, heads, length, batch, vocab, steps):
    torch.manual_seed(1)
    model = Model(width, layers, heads, length, vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(vocab, (batch, length))
    targets = torch.randint(vocab, (batch, length))
    best = float("inf")
    for step in range(steps + 2):  # the first two warm up
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        if step >= 2:
            best = min(best, time.perf_counter() - start)
    print(f"{name:<34} {1e3 * best:8.2f} ms  (PyTorch {torch.__version__})", flush=True)


def main():
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    measure("d 64, L 6, T 64, B 16, V 256", 64, 6, 4, 64, 16, 256, 60)
    measure("d 256, L 6, T 128, B 16, V 256", 256, 6, 4, 128, 16, 256, 8)
    measure("GPT-2 124M, T 64, B 4, V 50257", 768, 12, 12, 64, 4, 50257, 5)


main()
