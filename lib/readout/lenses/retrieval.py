"""What a ranking of a gallery is worth: recall, nDCG and reciprocal rank of every query.

A key is relevant to a query if it is by the same author-set, so a query has several; MRR and accuracy ask for the
one positive it is paired with. Keys of the query's own document take no part: they share its topic and its names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytrec_eval
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import NonFiniteError, ParameterError, TooFewError

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
