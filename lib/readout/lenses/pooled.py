"""Representation quality of the pooled vectors of a corpus at one site."""

import math
from collections.abc import Callable
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

Measure = tuple[str, str, Callable[[], Tensor]]
"""Metric, unit, and how to compute it."""


def pooled_quality(
    pooled: Float[Tensor, "text dim"],
    views: Float[Tensor, "viewed view dim"],
    *,
    generator: torch.Generator,
    batch_size: int = 2,
    temperature: float = 0.1,
    delta: float = 1e-4,
    n_permutations: int = 10,
) -> pd.DataFrame:
    """Dataset entropy of `pooled`; InfoNCE and DiME of the first two augmented views, LiDAR of all.

    The texts with views may be fewer than the pooled ones.

    Columns metric, unit, convention, value (missing where undefined), reason. `corrected` centres all
    views over the corpus together and scales them to length 1; `as_published` normalises each view inside
    batches of `batch_size`. A degenerate site (a token that is the same in every text) or a corpus too
    small for a metric gives a missing value with its reason. float64; time O(n q D² + D³ + n³).
    Raises `NonFiniteError`, and `ParameterError` for a dial out of range.

    >>> generator = torch.Generator().manual_seed(0)
    >>> views = torch.randn(8, 3, 5, generator=generator)
    >>> table = pooled_quality(views.mean(1), views, generator=generator)
    >>> table.query("convention == 'corrected'").metric.tolist()
    ['dataset_entropy', 'infonce', 'mutual_information_bound', 'dime', 'lidar', 'lidar']
    """
    unit = cache(lambda: unit_rows(center(views.flatten(0, 1))).view(views.shape))
    pair, raw_pair = cache(lambda: _first_two(unit())), cache(lambda: _first_two(views))
    separation = cache(lambda: lidar(unit(), delta))
    shuffle = {"generator": generator, "n_permutations": n_permutations}
    raw_infonce = cache(lambda: infonce_as_published(*raw_pair(), batch_size, temperature))
    corrected = [
        ("dataset_entropy", "share", lambda: dataset_entropy(pooled)),
        ("infonce", "nats", lambda: infonce(*pair(), temperature)),
        ("mutual_information_bound", "nats", lambda: mutual_information_bound(*pair(), temperature)),
        ("dime", "nats", lambda: dime(*pair(), **shuffle)),
        ("lidar", "nats", separation),
        ("lidar", "share", lambda: separation() / _room(views)),
    ]
    as_published = [
        ("dataset_entropy", "share", lambda: dataset_entropy_as_published(pooled, batch_size)),
        ("infonce", "nats", raw_infonce),
        ("mutual_information_bound", "share", lambda: 1 - raw_infonce() / math.log(len(views))),
        ("dime", "nats", lambda: dime_as_published(*raw_pair(), batch_size=batch_size, **shuffle)),
        ("lidar", "share", lambda: lidar_as_published(views, batch_size, delta)),
    ]
    return pd.concat(
        [_table("corrected", corrected), _table("as_published", as_published)], ignore_index=True
    )


def _table(convention: str, measures: list[Measure]) -> pd.DataFrame:
    rows = [(metric, unit, convention, *_value(compute)) for metric, unit, compute in measures]
    columns = ["metric", "unit", "convention", "value", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"value": "Float64"})


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
