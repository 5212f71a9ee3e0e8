"""Probe triplets as the public code of arXiv 2605.19908 selects them, beside `triplets.probe_triplets`."""

from collections.abc import Sequence
from dataclasses import dataclass

import datasets

from readout.errors import ParameterError, TooFewError
from readout.sources.triplets import SpanPool, measured, other_documents, strangers, triplet_row


@dataclass(frozen=True)
class PublishedTriplets:
    """Tier A as published, and how far lengths had to be let apart for it: tokens, and steps of letting go."""

    triplets: datasets.Dataset
    apart: float
    from_target: float
    steps: int


def published_probe_triplets(
    spans: datasets.Dataset, lengths: Sequence[int], n: int = 50, *, target: int = 130, split: str = "test"
) -> PublishedTriplets:
    """Tier A as the public code selects it: |S_p - S_n| <= 5 and |S - target| <= 10, let go until n are found.

    Each step multiplies the first bound by 1.5 and adds 5 to the second, six times at most; the anchor's length is
    free. The author-sets with most documents come first, and each is used up before the next, so few make up the
    tier (`probe_triplets` lets them take turns).

    Raises ParameterError for n below 1, lengths that do not fit the spans or an unknown split, TooFewError where no
    author-set has two documents in the split, or even the widest bounds give no triplet.
    """
    if n < 1:
        raise ParameterError(f"n: {n} triplets; ask for at least 1")
    pool = measured(spans, lengths, split)
    order = sorted(pool.anchors, key=lambda name: (-len({r["document"] for r in pool.by_set[name]}), name))
    apart, from_target = 5.0, 10.0
    for step in range(7):
        rows = _within(pool, order, lengths, n, target, apart, from_target)
        if len(rows) == n or step == 6:
            break
        apart, from_target = 1.5 * apart, from_target + 5
    if not rows:
        raise TooFewError(
            f"target: {target}; no two texts of a triplet are within {from_target:g} tokens of it"
        )
    return PublishedTriplets(datasets.Dataset.from_list(rows), apart, from_target, step)


def _within(
    pool: SpanPool,
    order: list[str],
    tokens: Sequence[int],
    n: int,
    target: int,
    apart: float,
    from_target: float,
) -> list[dict]:
    found: list[dict] = []
    near = {row["row"] for row in pool.rows if abs(tokens[row["row"]] - target) <= from_target}
    for name in order:
        for anchor in pool.by_set[name]:
            positives = [row for row in other_documents(pool, anchor) if row["row"] in near]
            negatives = [row for row in strangers(pool, anchor) if row["row"] in near]
            pairs = ((p, q) for p in positives for q in negatives)
            pair = next((x for x in pairs if abs(tokens[x[0]["row"]] - tokens[x[1]["row"]]) <= apart), None)
            if pair:
                found.append(triplet_row(anchor, *pair) | {"tier": "A"})
            if len(found) == n:
                return found
    return found
