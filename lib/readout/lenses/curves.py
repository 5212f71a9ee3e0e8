"""Depth curves with intervals: what the metrics say along a model, and how sure that is."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError
from readout.lenses.intervals import cluster_bootstrap, subsample
from readout.lenses.pooled import pooled_quality
from readout.lenses.threads import spread
from readout.lenses.values import CONVENTIONS
from readout.progress import progress_bar

SITE = ["site", "layer", "depth", "norm"]
MEASURE = ["metric", "unit", "convention"]


def token_curves(
    table: pd.DataFrame,
    authors: Sequence[str],
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Mean over texts of every metric in a `TokenQuality.table`, at each site, over resampled authors.

    One row a site and metric: the columns of the table but `text` and `reason`, and low, high, level, n. Texts
    without a value are left out of a mean; a site where no text has one has no row. Angles come in degrees.
    """
    curves = []
    for key, rows in in_degrees(table).groupby([*MEASURE, "first_token", "norm"], sort=False):
        values = rows.pivot(index="layer", columns="text", values="value").astype(float)
        values = values[values.notna().any(axis=1)]
        if values.empty:
            continue
        interval = cluster_bootstrap(
            values.to_numpy(), authors, n_resamples=n_resamples, level=level, seed=seed
        )
        sites = rows.drop_duplicates("layer").set_index("layer").loc[values.index].reset_index()[SITE]
        fixed = dict(zip([*MEASURE, "first_token"], key, strict=False))
        curves.append(sites.assign(**fixed, **vars(interval), level=level))
    return pd.concat(curves, ignore_index=True)


def pooled_curves(
    sites: Sequence,
    pooled: Float[Tensor, "site text dim"],
    views: Float[Tensor, "site viewed view dim"],
    authors: Sequence[str],
    *,
    conventions: Sequence[str] = CONVENTIONS,
    n_resamples: int = 20,
    level: float = 0.95,
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """`pooled_quality` of every site, over half-samples of the authors; rows as in `token_curves`.

    `views` are of the first texts, in their order. `n` counts the texts that a metric saw, an even number, since
    the published code takes them in pairs. A metric that is undefined at a site, in the whole sample or in a half,
    has no row there. Time: `n_resamples + 1` times that of `pooled_quality` a site, one core a site.

    Raises ParameterError where the numbers of sites, texts or authors do not fit together.
    """
    if not len(sites) == len(pooled) == len(views) or pooled.shape[1] != len(authors):
        raise ParameterError(
            f"{len(sites)} sites and {len(authors)} authors, but pooled is {tuple(pooled.shape)} and views "
            f"{tuple(views.shape)}; both are [site text ...], one author a text"
        )
    at = partial(_at_site, seed=seed, conventions=conventions)
    measures = at(pooled[0], views[0], np.arange(len(authors)))[MEASURE]

    def statistic(rows: np.ndarray) -> np.ndarray:
        tables = spread(
            lambda i: at(pooled[i], views[i], rows), range(len(sites)), item_size=views[0].numel()
        )
        bar.update(1)
        return np.stack([t["value"].to_numpy(float, na_value=np.nan) for t in tables])

    with progress_bar(n_resamples + 1, what="resampling", unit="sample", shown=progress) as bar:
        interval = subsample(statistic, authors, n_resamples=n_resamples, level=level, seed=seed)
    n_texts, n_viewed = _even(len(authors)), _even(views.shape[1])
    return pd.concat(
        [
            measures.assign(
                site=site.name,
                layer=site.layer,
                depth=site.depth,
                norm=site.norm,
                level=level,
                value=interval.value[i],
                low=interval.low[i],
                high=interval.high[i],
                n=np.where(measures["metric"] == "dataset_entropy", n_texts, n_viewed),
            )
            for i, site in enumerate(sites)
        ],
        ignore_index=True,
    ).dropna(subset=["value", "low", "high"])


def _at_site(
    pooled: Tensor, views: Tensor, rows: np.ndarray, seed: int, conventions: Sequence[str]
) -> pd.DataFrame:
    """The metrics of some texts at one site."""
    viewed = rows[rows < len(views)]
    rows, viewed = (r[: _even(len(r))] for r in (rows, viewed))
    # The same permutations in every half-sample and at every site: their noise cancels along a curve.
    generator = torch.Generator().manual_seed(seed)
    return pooled_quality(pooled[rows], views[viewed], generator=generator, conventions=conventions)


def _even(n: int) -> int:
    """How many of n texts are measured: the published code takes them in pairs."""
    return n // 2 * 2


def in_degrees(table: pd.DataFrame) -> pd.DataFrame:
    """The same table with every angle in degrees.

    >>> in_degrees(pd.DataFrame({"unit": ["rad", "share"], "value": [np.pi / 2, 0.5]})).values.tolist()
    [['degrees', 90.0], ['share', 0.5]]
    """
    angle = table["unit"] == "rad"
    value = table["value"].where(~angle, table["value"] * 180 / np.pi)
    return table.assign(value=value, unit=table["unit"].where(~angle, "degrees"))
