"""Recovery: how much of the clean score a patch at each layer brings back, and from which layer on it does.

For a triplet of anchor, clean text p and corrupted text n: s_clean = s(a, p), s_corrupt = s(a, n), and s_patched(l)
the score of n with p's states put in at layer l. A triplet is *eligible* where s_clean > s_corrupt + 1e-8; the
others are failures of the scorer or ties, have no recovery, and are counted; where none is eligible, recovery is NaN.
Sensitivity is over all triplets.

Every statistic here is a mean of triplets with weights `[resample text]`: one row of ones is the sample itself,
further rows say how often each triplet counts in a resample of whole author-sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Num

from readout.errors import NonFiniteError, ParameterError

TIE = 1e-8

# The sample is beside its resamples in one call, and a statistic without layers beside curves: neither is bound.
Weights = Num[np.ndarray, "_ text"]
Curve = Float[np.ndarray, "_ _"]


@dataclass(frozen=True)
class PatchScores:
    """The scores of all triplets; `patched` holds one row for each of `layers`, in order of depth.

    Raises ParameterError where the numbers of triplets or layers differ or layers are out of order, and NonFiniteError
    for NaN or infinite scores.

    >>> scores = PatchScores(np.array([3.0, 1.0]), np.array([1.0, 2.0]), np.array([[2.0, 2.0]]), layers=[0])
    >>> scores.eligible
    array([ True, False])
    """

    clean: Float[np.ndarray, "text"]
    corrupt: Float[np.ndarray, "text"]
    patched: Float[np.ndarray, "site text"]
    layers: Sequence[int]

    def __post_init__(self):
        n_texts = len(self.clean)
        if list(self.layers) != sorted(set(self.layers)) or not self.layers:
            raise ParameterError(f"layers: {list(self.layers)} should be one or more, in order of depth")
        if len(self.corrupt) != n_texts or self.patched.shape != (len(self.layers), n_texts):
            raise ParameterError(
                f"clean, corrupt: {n_texts} and {len(self.corrupt)} scores, {len(self.layers)} layers, but patched is "
                f"{self.patched.shape}; it should be [layer text]"
            )
        for name in ("clean", "corrupt", "patched"):
            if not np.isfinite(getattr(self, name)).all():
                raise NonFiniteError(f"{name}: holds NaN or infinite scores")

    @property
    def eligible(self) -> Bool[np.ndarray, "text"]:
        """True where s_clean > s_corrupt + 1e-8."""
        return self.clean > self.corrupt + TIE

    @property
    def failed(self) -> Bool[np.ndarray, "text"]:
        """True where s_corrupt > s_clean: the scorer prefers the other author's text."""
        return self.corrupt > self.clean

    @property
    def tied(self) -> Bool[np.ndarray, "text"]:
        """True where the two scores differ by no more than 1e-8; such a triplet is not eligible."""
        return np.abs(self.clean - self.corrupt) <= TIE


def recovery(scores: PatchScores, weights: Weights) -> Curve:
    """Mean over eligible triplets of 100 (s_patched - s_corrupt) / (s_clean - s_corrupt), in percent, as published.

    Not bounded: one tiny gap can outweigh all other triplets; `recovery_ratio` is the stable form.

    >>> scores = PatchScores(np.array([3.0, 2.0]), np.array([1.0, 1.0]), np.array([[2.0, 2.0]]), [0])
    >>> recovery(scores, np.ones((1, 2)))  # 50 and 100
    array([[75.]])
    """
    return 100 * _mean(_gained(scores) / _gap(scores), weights[:, scores.eligible])


def recovery_ratio(scores: PatchScores, weights: Weights) -> Curve:
    """100 mean(s_patched - s_corrupt) / mean(s_clean - s_corrupt) over eligible triplets, in percent.

    A ratio of means: each triplet counts by its gap. Source: our own, beside the published mean of ratios.

    >>> scores = PatchScores(np.array([5.0, 2.0]), np.array([1.0, 1.0]), np.array([[3.0, 2.0]]), [0])
    >>> recovery_ratio(scores, np.ones((1, 2)))  # gains 2 and 1, gaps 4 and 1
    array([[60.]])
    """
    weights = weights[:, scores.eligible]
    return 100 * _ratio(_mean(_gained(scores), weights), _mean(_gap(scores)[None], weights))


def rank_recovery(scores: PatchScores, weights: Weights) -> Curve:
    """Share of eligible triplets with s_patched > s_corrupt, in [0, 1]; the published chance line is 0.5.

    >>> scores = PatchScores(np.array([3.0, 2.0]), np.array([1.0, 1.0]), np.array([[2.0, 0.0]]), [0])
    >>> rank_recovery(scores, np.ones((1, 2)))
    array([[0.5]])
    """
    return _mean((_gained(scores) > 0).astype(float), weights[:, scores.eligible])


def sensitivity(scores: PatchScores, weights: Weights) -> Curve:
    """Mean over all triplets of |s_patched - s_corrupt|, in units of the score, as published.

    A late-interaction score sums a hundred cosines, a mean-pooled one is a single cosine: compare scorers by
    `sensitivity_per_gap`, or by the share of the standard deviation of random negatives in `recovery_table`.

    >>> scores = PatchScores(np.array([3.0, 1.0]), np.array([1.0, 2.0]), np.array([[2.0, 5.0]]), [0])
    >>> sensitivity(scores, np.ones((1, 2)))  # 1 and 3
    array([[2.]])
    """
    return _mean(np.abs(scores.patched - scores.corrupt), weights)


def sensitivity_per_gap(scores: PatchScores, weights: Weights) -> Curve:
    """`sensitivity` divided by the mean over all triplets of |s_clean - s_corrupt|; 1 is as much as the whole gap.

    >>> scores = PatchScores(np.array([3.0, 1.0]), np.array([1.0, 2.0]), np.array([[2.0, 5.0]]), [0])
    >>> sensitivity_per_gap(scores, np.ones((1, 2))).round(3)  # 2 / 1.5
    array([[1.333]])
    """
    gap = _mean(np.abs(scores.clean - scores.corrupt)[None], weights)
    return _ratio(sensitivity(scores, weights), gap)


def failure_rate(scores: PatchScores, weights: Weights) -> Curve:
    """Share of all triplets with s_corrupt > s_clean, in [0, 1]; one row, since no patch takes part.

    >>> scores = PatchScores(np.array([3.0, 1.0]), np.array([1.0, 2.0]), np.array([[2.0, 5.0]]), [0])
    >>> failure_rate(scores, np.ones((1, 2)))
    array([[0.5]])
    """
    return _mean(scores.failed[None].astype(float), weights)


def first_layer(curve: Curve, layers: Sequence[int], threshold: float) -> Float[np.ndarray, " _"]:
    """The first of `layers` at which a curve is at least `threshold`; NaN in a resample without one.

    >>> first_layer(np.array([[0.5, 0.5], [0.75, 0.6], [0.5, 0.7]]), [0, 1, 2], 0.75)
    array([ 1., nan])
    """
    reached = curve >= threshold
    return np.where(reached.any(axis=0), np.asarray(layers, float)[reached.argmax(axis=0)], np.nan)


def _gap(scores: PatchScores) -> Float[np.ndarray, " eligible"]:
    return (scores.clean - scores.corrupt)[scores.eligible]


def _gained(scores: PatchScores) -> Float[np.ndarray, "site eligible"]:
    return (scores.patched - scores.corrupt)[:, scores.eligible]


def _mean(values: Float[np.ndarray, "site some"], weights: Num[np.ndarray, "resample some"]) -> Curve:
    return _ratio(values @ weights.T, weights.sum(axis=1))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """NaN, to be passed over, in a resample that misses every eligible triplet."""
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
