"""What a ranking of a gallery is worth: recall, nDCG and reciprocal rank of every query, and intervals of their means.

A key is relevant to a query if it is by the same author-set, so a query has several; MRR and accuracy ask for the
one positive it is paired with. Keys of the query's own document take no part: they share its topic and its names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytrec_eval
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_weights

CUTOFFS = (20, 100)
BLOCK = 64  # queries that trec_eval sees at a time: it holds every key of each as a Python string

Scores = Float[np.ndarray | Tensor, "query key"]
Positives = Sequence[int] | Int[np.ndarray | Tensor, " query"]


@dataclass(frozen=True)
class PerQuery:
    """The value of each metric for each query that has a relevant key.

    values: R@k, nDCG@k, MRR and accuracy, all in [0, 1], float64. queries: the rows of the scores that these are.
    author_sets: who wrote those. n_left_out: queries without a relevant key, which have no value.
    """

    values: dict[str, Float[np.ndarray, " query"]]
    queries: Int[np.ndarray, " query"]
    author_sets: list[str]
    n_left_out: int

    def __len__(self) -> int:
        return len(self.queries)


def retrieval(
    scores: Scores,
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    query_documents: Sequence[str],
    key_documents: Sequence[str],
    positive: Positives,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> PerQuery:
    """How well each query's texts by its author-set are ranked among all keys of other documents.

    R@k = relevant keys among the first k / relevant keys. nDCG@k = DCG@k / the greatest DCG@k, with
    DCG@k = sum over relevant ranks r <= k of 1 / log2(1 + r). MRR = 1 / rank of the positive; accuracy = 1 where it
    is first. Higher is better. Equal scores are ranked against the scorer: other keys first, then relevant ones,
    the positive last, so a constant score finds nothing and the order of the keys has no influence.

    scores: floating point of any precision, compared as given. positive: for each query, the index of its own
    positive among the keys; not read for a query that is left out. cutoffs: the k; may exceed the gallery.
    Time: queries x keys x log keys; memory: queries x keys flags, and the names of 64 x keys.

    Raises ParameterError for sizes that do not fit, a cut-off below 1 or a positive that is not relevant,
    NonFiniteError for NaN or infinite scores of keys that are ranked, TooFewError where no query has a relevant key.

    Source: trec_eval through pytrec_eval (Van Gysel and de Rijke 2018, arXiv 1805.01597).

    >>> scores = np.array([[0.9, 0.8, 0.1]])
    >>> found = retrieval(scores, ["a"], ["b", "a", "a"], ["d1"], ["d2", "d3", "d4"], [1], cutoffs=[2])
    >>> {name: round(float(each[0]), 3) for name, each in found.values.items()}  # relevant: ranks 2 and 3
    {'R@2': 0.5, 'nDCG@2': 0.387, 'MRR': 0.5, 'accuracy': 0.0}
    """
    query, key = _codes(query_documents, key_documents)
    return _evaluate(scores, query_sets, key_sets, positive, cutoffs, query[:, None] != key)


def retrieval_as_published(
    scores: Scores,
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    positive: Positives,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> PerQuery:
    """`retrieval` as the public code of arXiv 2605.19908 does it: keys of the query's own document are ranked too.

    >>> found = retrieval_as_published(np.array([[0.9, 0.8]]), ["a"], ["a", "a"], [1], cutoffs=[1])
    >>> float(found.values["R@1"][0]), float(found.values["MRR"][0])
    (0.5, 0.5)
    """
    everything = np.ones((len(query_sets), len(key_sets)), dtype=bool)
    return _evaluate(scores, query_sets, key_sets, positive, cutoffs, everything)


def _evaluate(
    scores: Scores,
    query_sets: Sequence[str],
    key_sets: Sequence[str],
    positive: Positives,
    cutoffs: Sequence[int],
    candidates: Bool[np.ndarray, "row column"],
) -> PerQuery:
    if not cutoffs or min(cutoffs) < 1:
        raise ParameterError(f"cutoffs={cutoffs!r}: at least one is needed, each 1 or more")
    query, key = _codes(query_sets, key_sets)
    positive = np.asarray(positive)
    sizes = {len(query), len(positive), candidates.shape[0]}, {len(key), candidates.shape[1]}
    if sizes != ({scores.shape[0]}, {scores.shape[1]}):
        raise ParameterError(
            f"scores: {tuple(scores.shape)}, but positive, the sets and the documents are of "
            f"{sorted(sizes[0])} queries and {sorted(sizes[1])} keys; one each is needed"
        )
    relevant = (query[:, None] == key) & candidates
    kept = np.flatnonzero(relevant.any(axis=1))
    if not len(kept):
        raise TooFewError("query_sets: no query has a relevant key; give keys by the same author-sets")
    _check_positives(positive, relevant, kept)
    blocks = [
        _block(scores[rows], candidates[rows], relevant[rows], positive[rows], cutoffs)
        for rows in np.split(kept, range(BLOCK, len(kept), BLOCK))
    ]
    values = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return PerQuery(values, kept, [query_sets[row] for row in kept], len(query) - len(kept))


def _codes(*names: Sequence[str]) -> list[Int[np.ndarray, " _"]]:
    """Numbers for names, the same in every sequence: numpy compares numbers much faster."""
    codes: dict[str, int] = {}
    return [np.array([codes.setdefault(name, len(codes)) for name in each], dtype=int) for each in names]


def _check_positives(
    positive: Int[np.ndarray, " query"],
    relevant: Bool[np.ndarray, "query key"],
    kept: Int[np.ndarray, " kept"],
) -> None:
    for query in kept:
        if not (0 <= positive[query] < relevant.shape[1] and relevant[query, positive[query]]):
            raise ParameterError(
                f"positive={positive[query]} of query {query}: should be a candidate key by the same author-set"
            )


def _block(
    scores: Scores,
    candidates: Bool[np.ndarray, "query key"],
    relevant: Bool[np.ndarray, "query key"],
    positive: Int[np.ndarray, " query"],
    cutoffs: Sequence[int],
) -> dict[str, Float[np.ndarray, " query"]]:
    # float64 holds every lower precision without loss, and numpy has no bfloat16.
    exact = torch.as_tensor(scores).detach().cpu().double().numpy()
    if not np.isfinite(exact[candidates]).all():
        raise NonFiniteError("scores: hold NaN or infinite values; give finite scores")
    orders = [_ranking(*row) for row in zip(exact, candidates, relevant, positive, strict=True)]
    at = ",".join(map(str, cutoffs))
    soft = _trec(orders, [np.flatnonzero(row) for row in relevant], {f"recall.{at}", f"ndcg_cut.{at}"})
    hard = _trec(orders, [[key] for key in positive], {"recip_rank", "success.1"})
    return (
        {f"R@{k}": soft[f"recall_{k}"] for k in cutoffs}
        | {f"nDCG@{k}": soft[f"ndcg_cut_{k}"] for k in cutoffs}
        | {"MRR": hard["recip_rank"], "accuracy": hard["success_1"]}
    )


def _ranking(
    scores: Float[np.ndarray, " key"],
    candidates: Bool[np.ndarray, " key"],
    relevant: Bool[np.ndarray, " key"],
    positive: int | np.integer,
) -> Int[np.ndarray, " rank"]:
    """The candidates from the highest score down, ties against the scorer."""
    keys = np.flatnonzero(candidates)
    return keys[np.lexsort((keys == positive, relevant[keys], -scores[keys]))]


def _trec(orders: list, relevant: Sequence, measures: set[str]) -> dict[str, Float[np.ndarray, " query"]]:
    # Ranks go in for scores: trec_eval breaks ties by the names of documents, and here every rank is another number.
    run = {str(q): {str(key): float(-rank) for rank, key in enumerate(keys)} for q, keys in enumerate(orders)}
    truth = {str(q): {str(key): 1 for key in keys} for q, keys in enumerate(relevant)}
    found = pytrec_eval.RelevanceEvaluator(truth, measures).evaluate(run)
    return {name: np.array([found[str(q)][name] for q in range(len(orders))]) for name in found["0"]}


def retrieval_table(
    runs: Sequence[PerQuery], *, n_resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """The mean of every metric over queries, and over seeds where `runs` are several, with percentile intervals.

    runs: of the same queries, one a training seed. Resamples draw author-sets and, of several runs, runs too (two
    stages, with replacement; of few runs, their part of the width is too small by sqrt(1 - 1 / runs)).
    Columns metric, unit, value, low, high, level, n (queries). Time: runs x metrics x queries x resamples.

    Raises ParameterError for runs of different queries, a level outside (0, 1) or too few resamples, TooFewError for
    no run or fewer than two author-sets.

    >>> run = PerQuery({"MRR": np.array([1.0, 0.5])}, np.arange(2), ["a", "b"], 0)
    >>> retrieval_table([run])[["metric", "value", "low", "high", "n"]].values.tolist()
    [['MRR', 0.75, 0.5, 1.0, 2]]
    """
    drawn = _means(runs, n_resamples, level, seed)
    return pd.DataFrame([_row(name, drawn[name], level, len(runs[0])) for name in runs[0].values])


def over_seeds(
    runs: Sequence[PerQuery], *, n_resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """`retrieval_table` of two runs or more, with the lowest and the highest mean that a single seed has.

    Columns as there, and seed_min, seed_max. Raises as there, and TooFewError for fewer than two runs.

    >>> runs = [PerQuery({"MRR": np.array([x, x])}, np.arange(2), ["a", "b"], 0) for x in (0.25, 0.75)]
    >>> over_seeds(runs)[["value", "low", "high", "seed_min", "seed_max"]].values.tolist()
    [[0.5, 0.25, 0.75, 0.25, 0.75]]
    """
    if len(runs) < 2:
        raise TooFewError(f"runs: {len(runs)}, but a spread over seeds needs at least 2")
    table = retrieval_table(runs, n_resamples=n_resamples, level=level, seed=seed)
    means = np.array([[run.values[metric].mean() for metric in table["metric"]] for run in runs])
    return table.assign(seed_min=means.min(axis=0), seed_max=means.max(axis=0))


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

    Both are resampled together: the same author-sets and, where they have as many runs, the same seeds. Resamples in
    which the second is 0 have no ratio and are left out.

    Raises as `retrieval_table`, ParameterError for a metric they lack, DegenerateError for a ratio to 0.

    >>> one, two = (PerQuery({"MRR": np.array([x, x / 2])}, np.arange(2), ["a", "b"], 0) for x in (1.0, 0.5))
    >>> found = retrieval_contrast([one], [two], "MRR")
    >>> [float(found[name]) for name in ("value", "low", "high")]
    [0.375, 0.25, 0.5]
    """
    means = [_means(runs, n_resamples, level, seed) for runs in (first, second)]
    _check_runs([*first, *second])
    if metric not in first[0].values:
        raise ParameterError(f"metric={metric!r}: the runs have {', '.join(first[0].values)}")
    one, two = (each[metric] for each in means)
    if ratio and not two[0] > 0:
        raise DegenerateError(f"second: its {metric} is 0, so there is no ratio to it")
    drawn = one[two > 0] / two[two > 0] if ratio else one - two
    found = _row(metric, drawn, level, len(first[0]))
    return {name: found[name] for name in ("value", "low", "high", "level", "n")}


def _check_runs(runs: Sequence[PerQuery]) -> None:
    if not runs:
        raise TooFewError("runs: is empty; give at least one")
    for run in runs[1:]:
        same = np.array_equal(run.queries, runs[0].queries) and run.author_sets == runs[0].author_sets
        if not same or run.values.keys() != runs[0].values.keys():
            raise ParameterError("runs: are not of the same queries and cut-offs; rank one gallery by each")


def _means(
    runs: Sequence[PerQuery], n_resamples: int, level: float, seed: int
) -> dict[str, Float[np.ndarray, " resample"]]:
    """The sample's mean of each metric, then that of every resample of author-sets and runs."""
    _check_runs(runs)
    if not 0 < level < 1 or n_resamples < 10:
        raise ParameterError(
            f"level={level}, n_resamples={n_resamples}: 0 < level < 1 and 10 resamples are needed"
        )
    authors = runs[0].author_sets
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
    limits = {"value": drawn[0], "low": low, "high": high}
    return {"metric": metric, "unit": "share", **limits, "level": level, "n": n}


def triplet_accuracy(
    positive: Float[np.ndarray | Tensor, " triplet"], negative: Float[np.ndarray | Tensor, " other"]
) -> float:
    """Share of triplets whose positive scores above the negative, in [0, 1]; a tie counts half.

    Raises ParameterError for lengths that differ, TooFewError without a triplet, NonFiniteError for NaN or infinite
    scores.

    >>> triplet_accuracy(np.array([2.0, 1.0]), np.array([1.0, 1.0]))
    0.75
    """
    positive, negative = (torch.as_tensor(each).detach().double() for each in (positive, negative))
    if len(positive) != len(negative):
        raise ParameterError(
            f"positive, negative: {len(positive)} and {len(negative)} scores; one of each a triplet is needed"
        )
    if not len(positive):
        raise TooFewError("positive: is empty; give at least one triplet")
    if not (positive.isfinite() & negative.isfinite()).all():
        raise NonFiniteError("positive, negative: hold NaN or infinite values; give finite scores")
    return ((positive > negative).double() + 0.5 * (positive == negative)).mean().item()
