"""Linear probes: what a linear map of the states can tell, fitted by ridge regression from running sums.

Rows are never kept, so that a probe of every token of a corpus takes no more memory than one of a few texts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import NonFiniteError, ParameterError, TooFewError


@dataclass(frozen=True)
class RidgeProbe:
    """A linear map from states to targets: `x @ weight + intercept`, float64."""

    weight: Float[Tensor, "feature target"]
    intercept: Float[Tensor, "target"]
    alpha: Float[Tensor, "target"]
    """The penalty that each target was fitted with."""
    constant: Bool[Tensor, "target"]
    """True for a target that did not vary in training: it has nothing to explain, so no R²."""

    def predict(self, x: Float[Tensor, "row feature"]) -> Float[Tensor, "row target"]:
        """The targets that the probe reads from states, in float64.

        >>> one = torch.ones(1, dtype=torch.float64)
        >>> RidgeProbe(2 * one[None], one, one, one < 0).predict(torch.tensor([[3.0]])).item()  # 2 * 3 + 1
        7.0
        """
        return x.double() @ self.weight + self.intercept


@dataclass(frozen=True)
class _Moments:
    """Means and centred sums of rows; those of two sets of rows add up to those of their union.

    Centred, since raw sums of squares lose the variance of states that lie far from 0 (Chan, Golub and LeVeque 1983).
    """

    n: int
    mean_x: Float[Tensor, "feature"]
    mean_y: Float[Tensor, "target"]
    xx: Float[Tensor, "feature feature"]
    xy: Float[Tensor, "feature target"]
    yy: Float[Tensor, "target"]

    @classmethod
    def of(cls, x: Float[Tensor, "row feature"], y: Float[Tensor, "row target"]) -> "_Moments":
        mean_x, mean_y = x.mean(0), y.mean(0)
        x, y = x - mean_x, y - mean_y
        return cls(len(x), mean_x, mean_y, x.T @ x, x.T @ y, y.square().sum(0))

    def __add__(self, other: "_Moments") -> "_Moments":
        n = self.n + other.n
        dx, dy = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        share, between = other.n / n, self.n * other.n / n
        return _Moments(
            n,
            self.mean_x + share * dx,
            self.mean_y + share * dy,
            self.xx + other.xx + between * torch.outer(dx, dx),
            self.xy + other.xy + between * torch.outer(dx, dy),
            self.yy + other.yy + between * dy.square(),
        )

    def squared_error(
        self, weight: Float[Tensor, "feature target"], trained: "_Moments"
    ) -> Float[Tensor, "target"]:
        """Sum over these rows of the squared error of a weight whose intercept is from the `trained` means."""
        offset = (self.mean_y - trained.mean_y) - (self.mean_x - trained.mean_x) @ weight
        within = self.yy - 2 * (weight * self.xy).sum(0) + (weight * (self.xx @ weight)).sum(0)
        return within + self.n * offset.square()


class _Spectrum:
    """One eigendecomposition of the centred X'X, from which the weights for every penalty and target follow."""

    def __init__(self, moments: _Moments):
        values, self.vectors = torch.linalg.eigh(moments.xx)
        self.values = values.clamp(min=0)[:, None]
        self.projected = self.vectors.T @ moments.xy

    def weight(self, alpha: Float[Tensor, "*target"]) -> Float[Tensor, "feature target"]:
        return self.vectors @ (self.projected / (self.values + alpha))


class RidgeFitter:
    """Ridge regression from batches: minimises |y - x w - b|² + alpha |w|² for every target by itself.

    `(X'X + alpha I) w = X'y` on centred columns, which are not standardised: the intercept is free, and alpha has the
    unit of X'X, as in scikit-learn's Ridge. float64 throughout, on the device of the batches; more features than
    rows are no harm. n_folds: of how many folds the rows are, for `fit_cv`.
    Memory: n_folds * features * (features + targets) * 8 bytes; time: rows * features² + features³ a fold.

    >>> fitter = RidgeFitter(n_features=1, n_targets=1)
    >>> fitter.update(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [5.0]]))
    >>> probe = fitter.fit(alpha=2.0)  # centred: X'X = 2, X'y = 4, so w = 4 / (2 + 2), b = 3 - 1
    >>> probe.weight.item(), probe.intercept.item()
    (1.0, 2.0)
    """

    def __init__(self, n_features: int, n_targets: int, n_folds: int = 1):
        for name, value in (("n_features", n_features), ("n_targets", n_targets), ("n_folds", n_folds)):
            if value < 1:
                raise ParameterError(f"{name}={value}: should be at least 1")
        self.n_features, self.n_targets, self.n_folds = n_features, n_targets, n_folds
        self._folds: dict[int, _Moments] = {}
        self._origin: Tensor | None = None

    def update(
        self,
        x: Float[Tensor, "row feature"],
        y: Float[Tensor, "row target"],
        fold: Int[Tensor, " row"] | None = None,
    ) -> None:
        """Takes in rows; `fold` numbers the fold of each from 0. All rows of a document belong in one fold.

        Raises ParameterError for other sizes or folds than were announced, NonFiniteError for NaN or infinite values.
        """
        fold = self._checked(x, y, fold)
        if not len(x):
            return
        x, y = x.double(), y.double()
        # From the first row on: what remains of a constant target is 0, without rounding.
        self._origin = y[0] if self._origin is None else self._origin
        for k in fold.unique().tolist():
            batch = _Moments.of(x[fold == k], y[fold == k] - self._origin)
            self._folds[k] = self._folds[k] + batch if k in self._folds else batch

    def fit(self, alpha: float) -> RidgeProbe:
        """The probe with one penalty for all targets, from the rows of all folds.

        Raises ParameterError unless alpha > 0 is finite, TooFewError for fewer than two rows.
        """
        return self._fitted(_checked_alphas([alpha]).expand(self.n_targets))

    def fit_cv(self, alphas: Sequence[float]) -> RidgeProbe:
        """The probe from all rows with, for each target, the penalty of the least squared error over held-out folds.

        Each fold is predicted from the others; errors are summed over all rows. Of equals the first of `alphas` is
        taken. A chosen penalty at an end of `alphas` says that they do not reach far enough.

        Raises ParameterError unless every alpha > 0 is finite, TooFewError for fewer than two folds with rows.

        >>> fitter = RidgeFitter(1, 1, n_folds=2)
        >>> x = torch.arange(6.0)[:, None]
        >>> fitter.update(x, 2 * x, fold=torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> fitter.fit_cv([0.01, 100.0]).alpha.item()  # no noise, so the least penalty
        0.01
        """
        penalties = _checked_alphas(alphas)
        if len(self._folds) < 2:
            raise TooFewError(f"fold: {len(self._folds)} with rows, but cross-validation needs at least 2")
        errors = sum(self._held_out(k, penalties) for k in self._folds)
        return self._fitted(penalties[errors.argmin(0).cpu()])

    def _held_out(self, fold: int, alphas: Float[Tensor, " alpha"]) -> Float[Tensor, "alpha target"]:
        trained = reduce(add, (m for k, m in self._folds.items() if k != fold))
        spectrum = _Spectrum(trained)
        weights = (spectrum.weight(alpha) for alpha in alphas.to(trained.xx.device))
        return torch.stack([self._folds[fold].squared_error(weight, trained) for weight in weights])

    def _fitted(self, alpha: Float[Tensor, "target"]) -> RidgeProbe:
        n = sum(m.n for m in self._folds.values())
        if n < 2:
            raise TooFewError(f"x: {n} rows so far, but a probe needs at least 2")
        everything = reduce(add, self._folds.values())
        alpha = alpha.to(everything.xx.device)
        weight = _Spectrum(everything).weight(alpha)
        intercept = self._origin + everything.mean_y - everything.mean_x @ weight
        return RidgeProbe(weight, intercept, alpha, everything.yy == 0)

    def _checked(self, x: Tensor, y: Tensor, fold: Tensor | None) -> Int[Tensor, " row"]:
        if (x.shape[1], y.shape[1]) != (self.n_features, self.n_targets) or len(x) != len(y):
            raise ParameterError(
                f"x, y: shapes {tuple(x.shape)} and {tuple(y.shape)}; should be [row {self.n_features}] and "
                f"[row {self.n_targets}]"
            )
        for name, values in (("x", x), ("y", y)):
            if not values.isfinite().all():
                raise NonFiniteError(f"{name}: holds NaN or infinite values")
        if fold is None:
            if self.n_folds > 1:
                raise ParameterError(
                    f"fold: missing; each row should have one of {self.n_folds}, numbered from 0"
                )
            return torch.zeros(len(x), dtype=torch.long, device=x.device)
        if len(fold) != len(x) or ((fold < 0) | (fold >= self.n_folds)).any():
            raise ParameterError(
                f"fold: should be {len(x)} numbers from 0 to {self.n_folds - 1}, one a row of x"
            )
        return fold


def _checked_alphas(alphas: Iterable[float]) -> Float[Tensor, " alpha"]:
    penalties = torch.tensor(list(alphas), dtype=torch.float64)
    if not len(penalties) or not (penalties.isfinite() & (penalties > 0)).all():
        raise ParameterError(f"alphas={penalties.tolist()}: every penalty should be finite and above 0")
    return penalties
