"""How much a probe explains: R² of each target or group of targets, with intervals over resampled authors.

`R² = 1 - SS_res / SS_tot` on texts that the probe has not seen, never clipped: below 0 the probe does worse than the
mean of these texts. Rows of one author are no independent draws, so whole clusters are resampled, and R² is
computed anew in every resample from the sums of each cluster.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.intervals import Interval, cluster_bootstrap
from readout.lenses.values import Absent

# A statistic gets the sample and its resamples in turn, and differences hold the sums of two probes: not bound.
Curve = Float[np.ndarray, "_ _"]

# Of the sample's variation; less is what rounding leaves of a target that is constant in a resample.
NO_VARIATION = 1e-12


@dataclass(frozen=True)
class R2Scores:
    """R² of what is named, with limits; `interval.n` counts rows, and what has no R² is in `absent` with the reason."""

    names: list[Hashable]
    interval: Interval
    n_targets: Int[np.ndarray, "name"]
    """How many targets each value is a mean of."""
    absent: dict[Hashable, Absent]


class R2Accumulator:
    """The sums of squares of a probe's errors, batch by batch and cluster by cluster.

    names: one a target, all different. constant: which targets did not vary in training (`RidgeProbe.constant`);
    these have no R², nor have those that do not vary in what is given to `update`.
    Memory: 24 bytes a cluster and target, however many rows.

    >>> sums = R2Accumulator(["length"])
    >>> y = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    >>> sums.update(y, torch.tensor([[1.0], [2.0], [3.0], [3.0]]), ["a", "a", "b", "b"])
    >>> round(group_r2(sums, sums.names).interval.value.item(), 3)  # 1 - 1 / 5
    0.8
    """

    def __init__(self, names: Sequence[Hashable], constant: Bool[torch.Tensor, "target"] | None = None):
        self.names = list(names)
        if not self.names or len(set(self.names)) < len(self.names):
            raise ParameterError(f"names={self.names}: there should be one a target, all different")
        if constant is not None and len(constant) != len(self.names):
            raise ParameterError(
                f"constant: {len(constant)} for {len(self.names)} targets; should be one each"
            )
        self._constant = np.zeros(len(self.names), bool) if constant is None else constant.cpu().numpy()
        self._codes: dict[Hashable, int] = {}
        self._n = np.zeros(0)
        self._sums = np.zeros((3, 0, len(self.names)))
        self._origin: np.ndarray | None = None

    def update(
        self,
        y: Float[torch.Tensor, "row target"],
        prediction: Float[torch.Tensor, "row target"],
        clusters: Sequence[Hashable],
    ) -> None:
        """Takes in rows, such as tokens, each with its cluster (author), which may come again in later batches.

        Raises ParameterError where numbers of rows or targets differ, NonFiniteError for NaN or infinite values.
        """
        y, prediction = (each.double().cpu().numpy() for each in (y, prediction))
        self._check(y, prediction, clusters)
        if not len(y):
            return
        # From the first row on: what remains of a constant target is 0, without rounding.
        self._origin = y[0] if self._origin is None else self._origin
        rows = [self._codes.setdefault(cluster, len(self._codes)) for cluster in clusters]
        new = len(self._codes) - len(self._n)
        self._n = np.pad(self._n, (0, new))
        self._sums = np.pad(self._sums, ((0, 0), (0, new), (0, 0)))
        np.add.at(self._n, rows, 1)
        away = y - self._origin
        for sums, values in zip(self._sums, (away, away**2, (y - prediction) ** 2), strict=True):
            np.add.at(sums, rows, values)

    @property
    def absent(self) -> dict[Hashable, Absent]:
        """The targets without an R², and why."""
        still = _total(self._by_cluster().mean(-1, keepdims=True))[:, 0] == 0
        reasons = np.where(self._constant, "constant in training", "constant in the rows to be explained")
        return {self.names[i]: Absent(str(reasons[i])) for i in np.flatnonzero(self._constant | still)}

    def _by_cluster(self, order: Sequence[Hashable] | None = None) -> Float[np.ndarray, "sum cluster"]:
        """The number of rows and the three sums of every cluster: R² is a function of their means over clusters."""
        if not self._codes:
            raise TooFewError("y: no rows so far, so there is nothing to explain")
        values = np.concatenate([self._n[None], np.moveaxis(self._sums, 1, 2).reshape(-1, len(self._n))])
        return values[:, [self._codes[cluster] for cluster in order or self._codes]]

    def _truth(self, order: Sequence[Hashable]) -> Float[np.ndarray, "_ cluster"]:
        """Rows and sums of y of every cluster, for comparing with another accumulator of the same rows."""
        n, sums = self._n, self._sums[0].T + self._n * self._origin[:, None]
        return np.concatenate([n[None], sums])[:, [self._codes[cluster] for cluster in order]]

    def _check(self, y: np.ndarray, prediction: np.ndarray, clusters: Sequence[Hashable]) -> None:
        if not y.shape == prediction.shape == (len(clusters), len(self.names)):
            raise ParameterError(
                f"y, prediction, clusters: sizes {y.shape}, {prediction.shape} and {len(clusters)}; should be [row "
                f"{len(self.names)}] twice, and one cluster a row"
            )
        for name, values in (("y", y), ("prediction", prediction)):
            if not np.isfinite(values).all():
                raise NonFiniteError(f"{name}: holds NaN or infinite values")


def r2(
    y: Float[torch.Tensor, "row target"],
    prediction: Float[torch.Tensor, "row target"],
    clusters: Sequence[Hashable],
    names: Sequence[Hashable],
    *,
    constant: Bool[torch.Tensor, "target"] | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> R2Scores:
    """1 - SS_res / SS_tot of every target, with a percentile interval over resampled clusters (authors).

    constant: the targets that did not vary in training. Time: resamples * targets * clusters.
    Raises as `R2Accumulator.update` does, and TooFewError for fewer than two clusters.

    >>> y = torch.tensor([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    >>> scores = r2(y, torch.full_like(y, 3.0), list("abc"), ["length", "cites"])
    >>> scores.names, round(scores.interval.value.item(), 3)  # 1 - (4 + 1 + 0) / 2
    (['length'], -1.5)
    >>> scores.absent
    {'cites': Absent(reason='constant in the rows to be explained')}
    """
    sums = R2Accumulator(names, constant)
    sums.update(y, prediction, clusters)
    return group_r2(sums, sums.names, n_resamples=n_resamples, level=level, seed=seed)


def group_r2(
    sums: R2Accumulator,
    groups: Sequence[Hashable],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> R2Scores:
    """The mean R² of the targets of each group that have one; `groups` holds one a target.

    A target that does not vary in a resample, such as a word of one author alone, is left out of its mean there.
    A group without a target that has an R² is in `absent` beside those targets; `sums.names` for `groups` gives every
    target by itself.

    Raises TooFewError for fewer than two clusters, or where no target has an R².

    >>> sums = R2Accumulator(["mean", "std"])
    >>> y = torch.tensor([[0.0, 0.0], [2.0, 2.0]])
    >>> sums.update(y, torch.tensor([[0.0, 1.0], [2.0, 1.0]]), ["a", "b"])
    >>> scores = group_r2(sums, ["word_length", "word_length"])
    >>> scores.names, scores.interval.value.tolist(), scores.n_targets.tolist()  # 1 and 0
    (['word_length'], [0.5], [2])
    """
    return _scores([sums], groups, n_resamples=n_resamples, level=level, seed=seed)


def r2_difference(
    first: R2Accumulator,
    second: R2Accumulator,
    groups: Sequence[Hashable] | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> R2Scores:
    """How much more the first probe explains than the second, of the same rows in the same resamples of clusters.

    groups: one a target, as for `group_r2`; each target by itself without them. The rows may come in another order.
    Raises ParameterError where the two do not have the same targets of the same clusters.

    >>> y = torch.tensor([[0.0], [2.0]])
    >>> first, second = R2Accumulator(["length"]), R2Accumulator(["length"])
    >>> first.update(y, y, ["a", "b"])
    >>> second.update(y, torch.ones(2, 1), ["a", "b"])
    >>> r2_difference(first, second).interval.value.tolist()
    [1.0]
    """
    _require_same(first, second)
    groups = first.names if groups is None else groups
    return _scores([first, second], groups, n_resamples=n_resamples, level=level, seed=seed)


def _scores(probes: list[R2Accumulator], groups: Sequence[Hashable], **resampling) -> R2Scores:
    """R² of one probe, or of the first less the second, averaged over groups."""
    if len(groups) != len(probes[0].names):
        raise ParameterError(
            f"groups: {len(groups)} for {len(probes[0].names)} targets; there should be one each"
        )
    values = np.stack([probe._by_cluster(list(probes[0]._codes)) for probe in probes])
    least = NO_VARIATION * _total(values[0].mean(-1, keepdims=True))
    absent = {name: why for probe in probes for name, why in probe.absent.items()}
    defined = np.array([name not in absent for name in probes[0].names])
    if not defined.any():
        raise TooFewError(f"y: none of {len(defined)} targets varies, so none has an R²")
    names = list(dict.fromkeys(g for g, has in zip(groups, defined, strict=True) if has))
    member = np.array([[g == each for each in groups] for g in names]) & defined

    def statistic(means: Curve) -> Curve:
        each = [_r2(part, least) for part in np.split(means, len(probes))]
        return _mean_of_defined(reduce(np.subtract, each), member)

    interval = cluster_bootstrap(
        np.concatenate(values), range(values.shape[-1]), statistic=statistic, **resampling
    )
    n = np.full(len(names), int(values[0][0].sum()))
    missing = {g: Absent("no target of the group has an R²") for g in groups if g not in names}
    return R2Scores(names, replace(interval, n=n), member.sum(1), missing | absent)


def _total(means: Curve) -> Curve:
    """SS_tot of every target, in the unit of the means."""
    away, squares, _ = means[1:].reshape(3, -1, means.shape[1])
    return squares - away**2 / means[0]


def _r2(means: Curve, least: Curve) -> Curve:
    """R² of every target [target, resample]; NaN, to be passed over, where a target does not vary."""
    total, errors = _total(means), means[1:].reshape(3, -1, means.shape[1])[2]
    return 1 - np.divide(errors, total, out=np.full(total.shape, np.nan), where=total > least)


def _mean_of_defined(values: Curve, member: Bool[np.ndarray, "group target"]) -> Curve:
    defined = ~np.isnan(values)
    sums, counts = member @ np.where(defined, values, 0.0), member @ defined.astype(float)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def _require_same(first: R2Accumulator, second: R2Accumulator) -> None:
    if first.names != second.names or set(first._codes) != set(second._codes):
        raise ParameterError("second: other targets or clusters than first; both should be of the same texts")
    ours, theirs = (each._truth(list(first._codes)) for each in (first, second))
    if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-8 * np.abs(ours).max()):
        raise ParameterError("second: another y than first; both should be of the same texts")
