"""Representation quality of the pooled vectors of a corpus at one site."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import DegenerateError, TooFewError
from readout.lenses.dime import dime
from readout.lenses.entropy import max_entropy
from readout.lenses.infonce import infonce, mutual_information_bound
from readout.lenses.lidar import lidar
from readout.lenses.preprocess import center, unit_rows
from readout.lenses.prompt import dataset_entropy
from readout.lenses.published import (
    dataset_entropy_as_published,
    dime_as_published,
    infonce_as_published,
    lidar_as_published,
)
from readout.lenses.values import CONVENTIONS, check_choice

Measure = tuple[str, str, Callable[[], Tensor]]
"""Metric, unit, and how to compute it."""


COLUMNS = ["metric", "unit", "convention", "value", "reason"]


def pooled_quality(
    pooled: Float[Tensor, "text dim"],
    views: Float[Tensor, "viewed view dim"],
    *,
    generator: torch.Generator,
    conventions: Sequence[str] = CONVENTIONS,
    batch_size: int = 2,
    temperature: float = 0.1,
    delta: float = 1e-4,
    n_permutations: int = 10,
) -> pd.DataFrame:
    """Dataset entropy of `pooled`; InfoNCE and DiME of the first two augmented views, LiDAR of all.

    The texts with views may be fewer than the pooled ones. Columns metric, unit, convention, value (missing
    where undefined), reason. `corrected` centres all views over the corpus together and scales them to length
    1; `as_published` normalises each view inside batches of `batch_size`. A degenerate site (a token that is
    the same in every text) or a corpus too small for a metric gives a missing value with its reason. float64;
    time O(n q D² + D³ + n³). Raises `NonFiniteError`, and `ParameterError` for a dial out of range.

    >>> generator = torch.Generator().manual_seed(0)
    >>> views = torch.randn(8, 3, 5, generator=generator)
    >>> table = pooled_quality(views.mean(1), views, generator=generator)
    >>> table.query("convention == 'corrected'").metric.tolist()
    ['dataset_entropy', 'infonce', 'mutual_information_bound', 'dime', 'lidar', 'lidar']
    """
    check_choice("conventions", conventions, CONVENTIONS)
    shuffle = {"generator": generator, "n_permutations": n_permutations}
    measures = {
        "corrected": lambda: _corrected(pooled, views, temperature, delta, shuffle),
        "as_published": lambda: _as_published(pooled, views, batch_size, temperature, delta, shuffle),
    }
    rows = [
        (metric, unit, convention, *_value(compute))
        for convention in CONVENTIONS
        if convention in conventions
        for metric, unit, compute in measures[convention]()
    ]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    return pd.DataFrame(columns | {"value": pd.array(columns["value"], dtype="Float64")})


def _corrected(
    pooled: Tensor, views: Tensor, temperature: float, delta: float, shuffle: dict
) -> list[Measure]:
    unit = cache(lambda: unit_rows(center(views.flatten(0, 1))).view(views.shape))
    pair = cache(lambda: _first_two(unit()))
    separation = cache(lambda: lidar(unit(), delta))
    return [
        ("dataset_entropy", "share", lambda: dataset_entropy(pooled)),
        ("infonce", "nats", lambda: infonce(*pair(), temperature)),
        ("mutual_information_bound", "nats", lambda: mutual_information_bound(*pair(), temperature)),
        ("dime", "nats", lambda: dime(*pair(), **shuffle)),
        ("lidar", "nats", separation),
        ("lidar", "share", lambda: separation() / _room(views)),
    ]


def _as_published(
    pooled: Tensor, views: Tensor, batch_size: int, temperature: float, delta: float, shuffle: dict
) -> list[Measure]:
    pair = cache(lambda: _first_two(views))
    loss = cache(lambda: infonce_as_published(*pair(), batch_size, temperature))
    return [
        ("dataset_entropy", "share", lambda: dataset_entropy_as_published(pooled, batch_size)),
        ("infonce", "nats", loss),
        ("mutual_information_bound", "share", lambda: 1 - loss() / math.log(len(views))),
        ("dime", "nats", lambda: dime_as_published(*pair(), batch_size=batch_size, **shuffle)),
        ("lidar", "share", lambda: lidar_as_published(views, batch_size, delta)),
    ]


def _first_two(views: Tensor) -> tuple[Tensor, Tensor]:
    if views.shape[1] < 2:
        raise TooFewError(f"views holds {views.shape[1]} view of each text; at least 2 are needed")
    return views[:, 0], views[:, 1]


def _room(views: Tensor) -> float:
    n, _, dim = views.shape
    if n < 3 or dim < 2:
        raise TooFewError(f"views holds {n} texts in {dim} dimensions; at least 3 in 2 dimensions are needed")
    return max_entropy(n, dim, centered=True)


def _value(compute: Callable[[], Tensor]) -> tuple[float | None, str]:
    """The value, or why this site has none; an error that no site could cause goes through."""
    try:
        return float(compute()), ""
    except (DegenerateError, TooFewError) as error:
        return None, str(error)
