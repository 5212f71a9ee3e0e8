"""Slow forms in plain numpy, written from the formulas and not from the library, and data to compare them on."""

from itertools import permutations

import numpy as np
import torch


def correlated(n=40, d=6, d2=5, shared=3, noise=0.5, seed=0):
    """Two float64 feature sets with a common part."""
    g = torch.Generator().manual_seed(seed)
    s = torch.randn(n, shared, generator=g, dtype=torch.float64)
    maps = [torch.randn(shared, k, generator=g, dtype=torch.float64) for k in (d, d2)]
    return tuple(s @ m + noise * torch.randn(n, m.shape[1], generator=g, dtype=torch.float64) for m in maps)


def independent(n, d, d2, seed=0):
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, k, generator=g, dtype=torch.float64) for k in (d, d2))


def near_identical(n=60, d=32, seed=0, cosine=0.9998):
    """Unit rows whose mean cosine is about `cosine`, and the unit direction that they share."""
    g = torch.Generator().manual_seed(seed)
    x, _ = correlated(n, d, 3, seed=seed)
    common = torch.randn(d, generator=g, dtype=torch.float64)
    common /= common.norm()
    x = x - x.mean(0)
    rows = common + x * ((1 - cosine) / x.square().sum(-1).mean()) ** 0.5
    return rows / rows.norm(dim=-1, keepdim=True)


def hsic_over_distinct_indices(k, l):
    """The U-statistic itself: the mean over all ordered quadruples of distinct texts."""
    terms = [k[i, j] * (l[i, j] + l[q, r] - 2 * l[i, q]) for i, j, q, r in permutations(range(len(k)), 4)]
    return float(np.mean(terms))


def hsic_three_terms(x, y, dtype=np.longdouble):
    """Equation 5 of Song et al. as written, uncentred, in extended precision."""
    k, l = (np.asarray(z, dtype=dtype) @ np.asarray(z, dtype=dtype).T for z in (x, y))
    np.fill_diagonal(k, 0), np.fill_diagonal(l, 0)
    n, one = len(k), np.ones(len(k), dtype=dtype)
    trace = (k * l).sum()
    sums = (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2))
    return (trace + sums - 2 * (one @ k @ l @ one) / (n - 2)) / (n * (n - 3))


def cka(x, y, dtype=np.longdouble):
    own = hsic_three_terms(x, x, dtype) * hsic_three_terms(y, y, dtype)
    return float(hsic_three_terms(x, y, dtype) / np.sqrt(own))
