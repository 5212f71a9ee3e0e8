"""The best of several feature sets, in sample and held out: a maximum over token indices flatters itself."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.alignment.cka import CkaTarget, Steps, debiased_cka_many
from readout.lenses.alignment.hsic import MINIMUM_TEXTS


def held_out_best(
    features: Sequence[Float[Tensor, "text dim"]] | Float[Tensor, "set text dim"],
    target: Float[Tensor, "text dim2"],
    *,
    prepare: Steps,
    n_splits: int = 20,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """CKA, on one half of the texts, of the set that is best on the other half: value, low, high, level, n.

    Each split scores both halves with the winner of the other; value is the mean over splits, low and high are
    quantiles over them. Steps that look at all texts see one half. O(splits) times `debiased_cka_many`.

    Raises TooFewError for fewer than 8 texts, ParameterError for fewer than two splits.

    >>> x, noise = torch.arange(16.0)[:, None], torch.tensor([0.0, 1, 1, 0] * 4)[:, None]
    >>> round(held_out_best([noise, x], 3 * x, prepare=lambda z: z)["value"], 6)
    1.0
    """
    n = len(target)
    if n < 2 * MINIMUM_TEXTS:
        raise TooFewError(f"target has {n} texts; two halves need at least {2 * MINIMUM_TEXTS}")
    if n_splits < 2:
        raise ParameterError(f"n_splits={n_splits}: at least 2 are needed")
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_splits):
        order = torch.from_numpy(rng.permutation(n))
        halves = order[: n // 2], order[n // 2 :]
        scores = [_scores(features, target, half, prepare) for half in halves]
        chosen = [int(one.argmax()) for one in scores]
        found.append((scores[1][chosen[0]] + scores[0][chosen[1]]).item() / 2)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return {"value": float(np.mean(found)), "low": float(low), "high": float(high), "level": level, "n": n}


def _scores(features, target: Tensor, half: Tensor, prepare: Steps) -> Float[Tensor, " set"]:
    if isinstance(features, Tensor):
        return debiased_cka_many(features[:, half], target[half], prepare=prepare)
    reference = CkaTarget(prepare(target[half]))
    return torch.cat([reference.cka(prepare(one[half])[None]) for one in features])
