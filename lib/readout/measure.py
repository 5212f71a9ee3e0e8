"""Where states and lenses meet: what several notebooks measure, from one reading of the texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import ParameterError
from readout.lenses.curves import pooled_curves, token_curves
from readout.lenses.quality import TokenQuality
from readout.lenses.values import CONVENTIONS
from readout.sources.models import Reader
from readout.states import Consumer, Pool, Reading, ResidualStream, Site, masked_mean, read


@dataclass(frozen=True)
class Quality:
    """Representation quality of one model: depth curves with intervals, and the values of every text."""

    curves: pd.DataFrame
    tokens: pd.DataFrame
    reading: Reading


@dataclass(frozen=True)
class _OfNorm:
    """Hands a consumer the sites of one norm only."""

    norm: str
    consumer: Consumer

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        if site.norm == self.norm:
            self.consumer.update(site, states, mask, rows)


def measure_quality(
    reader: Reader,
    texts: Sequence[str],
    views: Sequence[Sequence[str]],
    authors: Sequence[str],
    *,
    max_tokens: int = 128,
    batch_size: int = 16,
    precision: str = "float32",
    n_resamples: int = 20,
    level: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> Quality:
    """All seven metrics at every site, from one pass over the texts and one over their views.

    `views[i]` are rewritings of `texts[i]`, of the first texts only if there are fewer; `authors[i]` wrote
    `texts[i]` and is what the intervals resample. Raw states are measured in both conventions, with and without
    the first token; final-normed states, where the model has a final norm, and untrained models are measured in
    the corrected one on all tokens. Memory: one batch, and one vector a text, view and site.

    Raises ParameterError where authors and texts differ in number, or texts in their number of views.
    """
    _check_counts(texts, views, authors)
    trained = reader.weights == "pretrained"
    norms = ("raw", "final") if trained and ResidualStream(reader.model).has_final_norm else ("raw",)
    plain = {"conventions": ("corrected",), "first_token": ("kept",)}
    raw = TokenQuality(len(texts), **({} if trained else plain))
    normed = TokenQuality(len(texts), **plain)
    pooled = Pool(masked_mean, len(texts))
    options = {"norms": norms, "batch_size": batch_size, "precision": precision, "progress": progress}
    consumers = [_OfNorm("raw", raw), _OfNorm("final", normed), pooled]
    reading = read(reader.model, reader.tokenizer, texts, consumers, max_tokens=max_tokens, **options)
    seen = Pool(masked_mean, sum(map(len, views)))
    flat = [view for text in views for view in text]
    read(reader.model, reader.tokenizer, flat, [seen], max_tokens=max_tokens, **options)

    resampling = {"level": level, "seed": seed}
    tokens = pd.concat([raw.table(), normed.table()], ignore_index=True)
    curves = [token_curves(tokens, authors, **resampling)]
    for norm in norms:
        of_pooled = pooled_curves(
            pooled.sites(norm),
            pooled.states(norm),
            seen.states(norm).unflatten(1, (len(views), -1)),
            authors,
            conventions=CONVENTIONS if trained and norm == "raw" else ("corrected",),
            n_resamples=n_resamples,
            progress=progress,
            **resampling,
        )
        curves.append(of_pooled.assign(first_token="kept"))
    return Quality(pd.concat(curves, ignore_index=True), tokens, reading)


def _check_counts(texts: Sequence[str], views: Sequence[Sequence[str]], authors: Sequence[str]) -> None:
    if len(authors) != len(texts):
        raise ParameterError(f"authors names {len(authors)} for {len(texts)} texts; one a text is needed")
    counts = sorted({len(of_text) for of_text in views})
    if len(counts) != 1 or len(views) > len(texts):
        raise ParameterError(
            f"views holds {counts} views of {len(views)} texts; the same number of each is needed, of at most "
            f"{len(texts)} texts"
        )
