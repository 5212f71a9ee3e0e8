"""Random texts of given lengths, and batches of them padded on either side."""

import torch


def texts(seed, lengths, dim=6):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(n, dim, generator=g) for n in lengths]


def pad(items, side, length=None, filler=float("nan")):
    length = length or max(map(len, items))
    states = torch.full((len(items), length, items[0].shape[1]), filler)
    mask = torch.zeros(len(items), length, dtype=torch.bool)
    for i, z in enumerate(items):
        place = slice(0, len(z)) if side == "right" else slice(length - len(z), length)
        states[i, place], mask[i, place] = z, True
    return states, mask
