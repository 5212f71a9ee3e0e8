"""What a ranking of a gallery is worth: recall, nDCG and reciprocal rank of every query, and intervals of their means.

A gallery text is relevant to a query if it is by the same author-set, so a query has several; MRR and accuracy ask
for its one paired positive. Texts of the query's own document do not take part: they share its topic and names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytrec_eval
from jaxtyping import Bool, Float

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_weights

CUTOFFS = (20, 100)


@dataclass(frozen=True)
class PerQuery:
    """The value of each metric for each query that has a relevant text, and who wrote these queries.

    n_left_out: queries without a relevant text outside their own document.
    """

    values: dict[str, Float[np.ndarray, " query"]]
    author_sets: list[str]
    n_left_out: int

    def __len__(self) -> int:
        return len(self.author_sets)


def retrieval(
    scores: Float[np.ndarray, "query key"],
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    query_documents: Sequence[str],
    key_documents: Sequence[str],
    positive: Sequence[int],
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> PerQuery:
    """Recall and nDCG at each cut-off over all relevant texts, MRR and accuracy of the paired positive.

    R@k = relevant texts among the first k / relevant texts; nDCG@k has gains of 1 and discounts log2(rank + 1);
    MRR = 1 / rank of the positive; accuracy = 1 where it is first. All by trec_eval (Buckley); equal scores are
    ranked by the order of the keys, last first. positive: for each query, the index of its own among the keys.

    Raises ParameterError for sizes that do not fit, NonFiniteError for NaN or infinite scores, TooFewError where no
    query has a relevant text.

    >>> scores = np.array([[0.9, 0.8, 0.1]])
    >>> found = retrieval(scores, ["a"], ["b", "a", "a"], ["d1"], ["d2", "d3", "d4"], [1], cutoffs=[2])
    >>> {name: round(float(each[0]), 3) for name, each in found.values.items()}  # ranks 2 and 3 of 3
    {'R@2': 0.5, 'nDCG@2': 0.387, 'MRR': 0.5, 'accuracy': 0.0}
    """
    own = np.array(query_documents)[:, None] == np.array(key_documents)
    return _evaluate(scores, query_sets, key_sets, positive, cutoffs, candidates=~own)


def retrieval_as_published(
    scores: Float[np.ndarray, "query key"],
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    positive: Sequence[int],
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> PerQuery:
    """`retrieval` with every text of the gallery as candidate, those of the query's own document too.

    >>> found = retrieval_as_published(np.array([[0.9, 0.8]]), ["a"], ["a", "a"], [1], cutoffs=[1])
    >>> float(found.values["R@1"][0])
    0.5
    """
    everything = np.ones((len(query_sets), len(key_sets)), dtype=bool)
    return _evaluate(scores, query_sets, key_sets, positive, cutoffs, candidates=everything)


def _evaluate(
    scores: Float[np.ndarray, "query key"],
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    positive: Sequence[int],
    cutoffs: Sequence[int],
    candidates: Bool[np.ndarray, "query key"],
) -> PerQuery:
    if scores.shape != (len(query_sets), len(key_sets)) or len(positive) != len(query_sets):
        raise ParameterError(
            f"scores: {scores.shape} for {len(query_sets)} queries, {len(positive)} positives and {len(key_sets)} keys"
        )
    if not np.isfinite(scores).all():
        raise NonFiniteError("scores: hold NaN or infinite values")
    relevant = (np.array(query_sets)[:, None] == np.array(key_sets)) & candidates
    kept = np.flatnonzero(relevant.any(axis=1))
    if not len(kept):
        raise TooFewError("query_sets: no query has a text by the same author-set in the gallery")
    order = [_ranked(scores[query], candidates[query]) for query in kept]
    soft = _trec(order, [np.flatnonzero(relevant[query]) for query in kept], cutoffs)
    hard = _trec(order, [[positive[query]] for query in kept], [1])
    values = {f"R@{k}": soft[f"recall_{k}"] for k in cutoffs}
    values |= {f"nDCG@{k}": soft[f"ndcg_cut_{k}"] for k in cutoffs}
    values |= {"MRR": hard["recip_rank"], "accuracy": hard["recall_1"]}
    return PerQuery(values, [query_sets[query] for query in kept], len(query_sets) - len(kept))


def _ranked(scores: Float[np.ndarray, " key"], candidates: Bool[np.ndarray, " key"]) -> list[int]:
    keys = np.flatnonzero(candidates)
    return keys[np.lexsort((-keys, -scores[keys]))].tolist()


def _trec(
    order: list[list[int]], relevant: list[Sequence[int]], cutoffs: Sequence[int]
) -> dict[str, np.ndarray]:
    # Ranks go in as whole numbers: trec_eval compares scores in single precision, which would tie close ones.
    run = {str(q): {str(key): float(-rank) for rank, key in enumerate(keys)} for q, keys in enumerate(order)}
    truth = {str(q): {str(key): 1 for key in keys} for q, keys in enumerate(relevant)}
    at = ",".join(map(str, cutoffs))
    measures = {f"recall.{at}", f"ndcg_cut.{at}", "recip_rank"}
    found = pytrec_eval.RelevanceEvaluator(truth, measures).evaluate(run)
    names = next(iter(found.values()))
    return {name: np.array([found[str(q)][name] for q in range(len(order))]) for name in names}


def retrieval_table(
    runs: Sequence[PerQuery], *, n_resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Means over queries, and over seeds where `runs` are several, with percentile intervals.

    runs: the same queries under models trained with different seeds. Intervals resample author-sets and, of several
    runs, runs too. Columns: metric, unit, value, low, high, level, n.

    Raises ParameterError where the runs are not of the same queries, TooFewError for fewer than two author-sets.
    """
    drawn = _means(runs, n_resamples, seed)
    return pd.DataFrame([_row(name, drawn[name], level, len(runs[0])) for name in runs[0].values])


def retrieval_contrast(
    first: Sequence[PerQuery],
    second: Sequence[PerQuery],
    metric: str = "R@20",
    *,
    ratio: bool = False,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """How much better the first read-out is than the second: value, low, high, level, n of a difference or a ratio.

    Both are resampled together: the same author-sets and, where they have as many runs, the same seeds.
    """
    one, two = (_means(runs, n_resamples, seed)[metric] for runs in (first, second))
    found = _row(metric, one / two if ratio else one - two, level, len(first[0]))
    return {name: found[name] for name in ("value", "low", "high", "level", "n")}


def _means(
    runs: Sequence[PerQuery], n_resamples: int, seed: int
) -> dict[str, Float[np.ndarray, " resample"]]:
    """The sample's mean of each metric, then that of every resample of author-sets and runs."""
    authors = runs[0].author_sets
    if any(run.author_sets != authors for run in runs):
        raise ParameterError("runs: are not of the same queries")
    weights = np.concatenate([np.ones((1, len(authors))), cluster_weights(authors, n_resamples, seed)])
    draws = np.random.default_rng([seed, 1]).multinomial(
        len(runs), np.full(len(runs), 1 / len(runs)), n_resamples
    )
    shares = np.concatenate([np.ones((1, len(runs))), draws]) / len(runs)
    means = {}
    for name in runs[0].values:
        by_run = np.stack([weights @ run.values[name] for run in runs], axis=1) / weights.sum(axis=1)[:, None]
        means[name] = (by_run * shares).sum(axis=1)
    return means


def _row(metric: str, drawn: Float[np.ndarray, " resample"], level: float, n: int) -> dict:
    low, high = np.quantile(drawn[1:], [(1 - level) / 2, (1 + level) / 2])
    return {
        "metric": metric,
        "unit": "share",
        "value": drawn[0],
        "low": low,
        "high": high,
        "level": level,
        "n": n,
    }


def triplet_accuracy(
    positive: Float[np.ndarray, " triplet"], negative: Float[np.ndarray, " triplet"]
) -> float:
    """Share of triplets whose positive scores above the negative; a tie counts half.

    >>> triplet_accuracy(np.array([2.0, 1.0]), np.array([1.0, 1.0]))
    0.75
    """
    return float(np.mean((positive > negative) + 0.5 * (positive == negative)))
