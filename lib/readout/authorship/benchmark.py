"""What every trained scorer finds in a gallery, beside what costs no training."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from readout.authorship.gallery import Gallery
from readout.authorship.runs import Training
from readout.authorship.vectors import Vectors, read_vectors
from readout.lenses.retrieval import PerQuery
from readout.lenses.retrieval_table import retrieval_table
from readout.scorers import scorer_of
from readout.scorers.ngrams import CharNgrams
from readout.training import Encoder

UNTRAINED, NGRAMS = "untrained", "char n-grams"


@dataclass(frozen=True)
class Ranked:
    """A gallery as one read-out ranks it.

    readout: the name of a run, or of a baseline. per_query, as_published: without and with the keys of a query's own
    document. temperature: of training; effective_temperature: divided by the number of cosines in a score, on average
    over the queries; both None for what was not trained.
    """

    readout: str
    seed: int
    per_query: PerQuery
    as_published: PerQuery
    temperature: float | None = None
    effective_temperature: float | None = None


def train_all(training: Training) -> pd.DataFrame:
    """Trains every run of the plan that is not trained yet; the loss of each step, in nats."""
    rows = []
    for name, seed in training.plan.runs():
        losses = training.train(name, seed).losses
        about = {"readout": name, "temperature": training.plan.temperature_of(name), "seed": seed}
        rows.append(pd.DataFrame({**about, "step": range(1, len(losses) + 1), "value": losses}))
    return pd.concat(rows, ignore_index=True).assign(metric="loss", unit="nats")


def rank_all(training: Training, gallery: Gallery, train_texts: Sequence[str], **reading) -> list[Ranked]:
    """The gallery under every run of the plan and under the baselines.

    Baselines: character n-grams (fitted on `train_texts`), the untrained encoder scored by mean pooling and by late
    interaction, and the encoder that was trained by mean pooling, scored by late interaction.
    """
    plan = training.plan
    ngrams = CharNgrams().fit(train_texts).score(gallery.queries, gallery.keys)
    ranked = [_evaluated(gallery, ngrams, NGRAMS, plan.seeds[0])]
    pretrained = _read(training, Encoder(training.reader.model), gallery, reading)
    for name in ("mean", "li"):
        scores = gallery.scores(scorer_of(name), pretrained)
        ranked.append(_evaluated(gallery, scores, f"{UNTRAINED}, {name}", plan.seeds[0]))
    for name, seed in plan.runs():
        vectors = _read(training, training.encoder(name, seed), gallery, reading)
        ranked.append(_rank(training, gallery, vectors, name, seed))
        if name == "mean":
            scores = gallery.scores(scorer_of("li"), vectors)
            ranked.append(_evaluated(gallery, scores, "mean, scored by li", seed))
    return ranked


def _evaluated(gallery: Gallery, scores: np.ndarray, readout: str, seed: int, *temperatures: float) -> Ranked:
    published = gallery.evaluate_as_published(scores)
    return Ranked(readout, seed, gallery.evaluate(scores), published, *temperatures)


def _read(training: Training, encoder: Encoder, gallery: Gallery, reading: dict) -> Vectors:
    return read_vectors(
        encoder, training.reader.tokenizer, gallery.texts, precision=training.precision, **reading
    )


def _rank(training: Training, gallery: Gallery, vectors: Vectors, name: str, seed: int) -> Ranked:
    scorer, temperature = training.plan.scorer(name), training.plan.temperature_of(name)
    terms = scorer.terms(vectors.tokens(range(len(gallery.queries)))).mean().item()
    return _evaluated(gallery, gallery.scores(scorer, vectors), name, seed, temperature, temperature / terms)


def layer_weights(training: Training, name: str = "layerwise") -> pd.DataFrame:
    """The share of each site in the mix that a layerwise run has learned."""
    weights = training.encoder(name, training.plan.seeds[0]).mix.weights.double().numpy()
    layers = np.arange(len(weights))
    return pd.DataFrame(
        {
            "site": ["embedding", *(f"block {layer}" for layer in layers[1:])],
            "layer": layers,
            "depth": layers / layers[-1],
            "metric": "weight",
            "unit": "share",
            "value": weights,
        }
    )


PUBLISHED = {
    "mean": (0.121, 0.294, 0.063, 0.101),
    "mean, scored by li": (0.147, 0.328, 0.082, 0.121),
    "li": (0.485, 0.678, 0.364, 0.408),
    "pli-2": (0.497, 0.700, 0.365, 0.411),
    "pli-3": (0.495, 0.699, 0.361, 0.407),
    "pli-4": (0.472, 0.687, 0.339, 0.387),
}
"""R@20, R@100, nDCG@20 and nDCG@100 on the base-4 test spans of HALvest-Contrastive, ModernBERT-base: the paper's
main table, and that of arXiv 2407.20595v5 from which it is taken."""


def by_readout(ranked: Sequence[Ranked]) -> dict[str, list[PerQuery]]:
    """The rankings of each read-out, one a seed."""
    found: dict[str, list[PerQuery]] = {}
    for one in ranked:
        found.setdefault(one.readout, []).append(one.per_query)
    return found


def ranking_table(ranked: Sequence[Ranked], **resampling) -> pd.DataFrame:
    """Every metric of every read-out, averaged over queries and seeds, with intervals; columns as in the schema."""
    first = {one.readout: one for one in reversed(ranked)}
    tables = []
    for readout, runs in by_readout(ranked).items():
        about = {
            k: getattr(first[readout], k) for k in ("readout", "temperature", "effective_temperature", "seed")
        }
        tables.append(retrieval_table(runs, **resampling).assign(**about))
    return pd.concat(tables, ignore_index=True)


def conventions_table(ranked: Sequence[Ranked], **resampling) -> pd.DataFrame:
    """Every metric of every read-out in both conventions: a query's own document out of its ranking, and in it."""
    first = {one.readout: one for one in reversed(ranked)}
    tables = []
    for readout in first:
        for convention, of_run in (("corrected", "per_query"), ("as_published", "as_published")):
            runs = [getattr(one, of_run) for one in ranked if one.readout == readout]
            about = {"readout": readout, "convention": convention, "seed": first[readout].seed}
            tables.append(retrieval_table(runs, **resampling).assign(**about))
    return pd.concat(tables, ignore_index=True)


def with_published(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a ranking table, and beside them the paper's own values, marked by data = "paper"."""
    metrics = ("R@20", "R@100", "nDCG@20", "nDCG@100")
    rows = [
        {"readout": readout, "metric": metric, "value": value, "unit": "share", "data": "paper"}
        for readout, values in PUBLISHED.items()
        if readout in set(table["readout"])
        for metric, value in zip(metrics, values, strict=True)
    ]
    return pd.concat(
        [table, pd.DataFrame(rows).assign(provenance=table["provenance"].iloc[0])], ignore_index=True
    )
