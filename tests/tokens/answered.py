"""Answers with a planted signal: what is aligned with what is known."""

import torch

from readout.tokens.measures import Answers


def answers(n=48, n_tokens=12, dim=24, *, noise=2.0, seeds=1, growth=0.0, lengths=None, seed=0):
    """Tokens that are one state a text plus noise drawn anew for every token and seed; the target is linear in it.

    growth: how much stronger the state gets from the first token to the last.
    """
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    signal = normal(n, dim)
    target = signal @ normal(dim, 8)
    strength = 1 + growth * torch.linspace(0, 1, n_tokens, dtype=torch.float64)
    mask = torch.arange(n_tokens) < torch.as_tensor(lengths or [n_tokens] * n)[:, None]
    prompts = {name: normal(n, dim) for name in ("mean", "text mean", "last", "echo")}

    def one():
        tokens = strength[:, None] * signal[:, None] + noise * normal(n, n_tokens, dim)
        return Answers(tokens.masked_fill(~mask[..., None], 0.0).float(), mask, prompts, target)

    return [one() for _ in range(seeds)]
