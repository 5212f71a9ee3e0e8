"""Random token vectors under every padding, and the scores by their definitions, one pair at a time."""

import torch

from readout.scorers import Tokens

SIDES = ("left", "right", "both")


def texts(lengths, dim=5, seed=0, dtype=torch.float64):
    """Vectors of texts, and which of their tokens are content; the first always is."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for length in lengths:
        content = torch.rand(length, generator=generator) > 0.3
        content[0] = True
        made.append((torch.randn(length, dim, generator=generator, dtype=dtype), content))
    return made


def pad(made, side="right", extra=3):
    """Tokens padded with NaN, which must never be read."""
    width = max(len(states) for states, _ in made) + extra
    states = torch.full((len(made), width, made[0][0].shape[1]), torch.nan, dtype=made[0][0].dtype)
    mask, content = torch.zeros(2, len(made), width, dtype=torch.bool)
    for row, (text, kept) in enumerate(made):
        start = {"right": 0, "left": width - len(text), "both": (width - len(text)) // 2}[side]
        states[row, start : start + len(text)] = text
        mask[row, start : start + len(text)] = True
        content[row, start : start + len(text)] = kept
    return Tokens(states, mask, content)


def cosines(a, b):
    return (a / a.norm(dim=1, keepdim=True)) @ (b / b.norm(dim=1, keepdim=True)).T


def mean(query, key):
    return cosines(query[0].mean(0, keepdim=True), key[0].mean(0, keepdim=True)).item()


def late(query, key, reduction="sum", skip=True):
    best = cosines(query[0][query[1]] if skip else query[0], key[0]).max(dim=1).values
    return getattr(best, reduction)().item()


def patches(query, key, n, reduction="sum"):
    a, b = (torch.stack([part.mean(0) for part in text[0].split(n)]) for text in (query, key))
    return getattr(cosines(a, b).max(dim=1).values, reduction)().item()


ORACLES = {
    "mean": mean,
    "li": late,
    "li-mean": lambda q, k: late(q, k, "mean"),
    "li-all": lambda q, k: late(q, k, skip=False),
    "pli-1": lambda q, k: patches(q, k, 1),
    "pli-2": lambda q, k: patches(q, k, 2),
    "pli-3-mean": lambda q, k: patches(q, k, 3, "mean"),
}
