"""Triplets of spans: an anchor, another text by its author-set, and a text by somebody else.

All draws follow from a seed. Author-sets take turns, so that none fills a batch or a tier, and the first k of n
triplets are those of a draw of k.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import datasets
import numpy as np

from readout.errors import ParameterError, TooFewError

PARTS = ("anchor", "positive", "negative")
ABOUT = ("author_set", "document", "domain")
TIERS = ("A", "B", "C")


@dataclass(frozen=True)
class SpanPool:
    """The spans of a split, with what is asked of them again and again."""

    rows: list[dict]

    @classmethod
    def of(cls, spans: datasets.Dataset, split: str) -> "SpanPool":
        """The spans of a split, each with its row; raises ParameterError for a split that they do not have."""
        names = ("text", "authors", *ABOUT)
        columns = zip(spans["split"][:], *(spans[name][:] for name in names), strict=True)
        rows = [
            dict(zip(names, values, strict=True)) | {"row": row, "authors": frozenset(values[1])}
            for row, (of_split, *values) in enumerate(columns)
            if of_split == split
        ]
        if not rows:
            raise ParameterError(
                f"split = {split!r}: the spans have {', '.join(sorted(set(spans['split'][:])))}"
            )
        return cls(rows)

    def ordered(self, key: Callable[[dict], tuple]) -> "SpanPool":
        """The same spans in another order, in which all lists of them will be."""
        return SpanPool(sorted(self.rows, key=key))

    @cached_property
    def by_set(self) -> dict[str, list[dict]]:
        """The spans of each author-set."""
        return self._by("author_set")

    @cached_property
    def by_document(self) -> dict[str, list[dict]]:
        """The spans of each document."""
        return self._by("document")

    @cached_property
    def by_domain(self) -> dict[str, list[dict]]:
        """The spans of each domain."""
        return self._by("domain")

    def _by(self, name: str) -> dict[str, list[dict]]:
        found = defaultdict(list)
        for row in self.rows:
            found[row[name]].append(row)
        return dict(sorted(found.items()))

    @cached_property
    def anchors(self) -> list[str]:
        """The author-sets with at least two documents, so that an anchor has a positive."""
        return [name for name, rows in self.by_set.items() if len({r["document"] for r in rows}) > 1]


def draw_triplets(
    spans: datasets.Dataset, n: int, *, split: str = "train", seed: int = 0
) -> datasets.Dataset:
    """`n` triplets: the positive by the same author-set from another document, the negative with no author in common.

    Columns: anchor, positive, negative (texts), each with _author_set, _document and _domain; relaxed, True where the
    anchor's domain holds no text by others and the negative comes from elsewhere. Author-sets take turns in an order
    that is drawn anew in each round, so a window of as many triplets as there are sets has few of them twice.

    Raises ParameterError for n below 1 or an unknown split, TooFewError where no author-set has two documents in the
    split, or only one author has written all.
    """
    if n < 1:
        raise ParameterError(f"n: {n} triplets; ask for at least 1")
    pool = anchored(spans, split)
    rows = []
    for turn in range(-(-n // len(pool.anchors))):
        order = np.random.default_rng([seed, turn]).permutation(len(pool.anchors))
        for index in order[: n - len(rows)]:
            draw = np.random.default_rng([seed, turn, int(index)])
            rows.append(_drawn(pool, pool.by_set[pool.anchors[index]], draw))
    return datasets.Dataset.from_list(rows)


def anchored(spans: datasets.Dataset, split: str) -> SpanPool:
    """The spans of a split in which some author-set has two documents; raises TooFewError where none has."""
    pool = SpanPool.of(spans, split)
    if not pool.anchors:
        raise TooFewError(f"split {split!r}: no author-set has two documents, so no anchor has a positive")
    return pool


def draw_spans(spans: datasets.Dataset, n: int, *, split: str = "train", seed: int = 0) -> datasets.Dataset:
    """Up to `n` different spans of a split, author-sets taking turns; the first k of n are those of a draw of k.

    Raises ParameterError for n below 1 or an unknown split.
    """
    if n < 1:
        raise ParameterError(f"n: {n} spans; ask for at least 1")
    sets = np.array(
        [a if s == split else "" for a, s in zip(spans["author_set"][:], spans["split"][:], strict=True)]
    )
    names = [name for name in np.unique(sets) if name]
    if not names:
        raise ParameterError(f"split = {split!r}: the spans have {', '.join(sorted(set(spans['split'][:])))}")
    rng = np.random.default_rng(seed)
    order = [rng.permutation(np.flatnonzero(sets == name)) for name in names]
    turns = [rows[turn] for turn in range(max(map(len, order))) for rows in order if turn < len(rows)]
    return spans.select(turns[:n])


def _drawn(pool: SpanPool, own: list[dict], draw: np.random.Generator) -> dict:
    anchor = _pick(own, draw)
    positive = _pick([row for row in own if row["document"] != anchor["document"]], draw)
    others = [row for row in pool.by_domain[anchor["domain"]] if not row["authors"] & anchor["authors"]]
    relaxed = not others
    if relaxed:
        others = [row for row in pool.rows if not row["authors"] & anchor["authors"]]
    if not others:
        raise TooFewError(f"author-set '{anchor['author_set']}': nobody else has written a text of its split")
    return triplet_row(anchor, positive, _pick(others, draw)) | {"relaxed": relaxed}


def _pick(rows: Sequence[dict], draw: np.random.Generator) -> dict:
    return rows[int(draw.integers(len(rows)))]


def triplet_row(*texts: dict) -> dict:
    """Anchor, positive and negative as one row, each with its author-set, document and domain."""
    row = {part: text["text"] for part, text in zip(PARTS, texts, strict=True)}
    return row | {f"{p}_{name}": text[name] for p, text in zip(PARTS, texts, strict=True) for name in ABOUT}


def probe_triplets(
    spans: datasets.Dataset,
    lengths: Sequence[int],
    n: int = 148,
    *,
    target: int = 130,
    split: str = "test",
    seed: int = 0,
) -> datasets.Dataset:
    """Triplets in three tiers of hardness, of spans whose length in tokens is near `target`.

    lengths: tokens of every span. Columns as `draw_triplets`, and tier:
    A: the negative has no author in common with the anchor and comes from its domain, as does the positive where one
    is there. B: the negative's author-set shares an author with the anchor's, and is another. C: the positive comes
    from another domain than the anchor, the negative from the anchor's.
    Tiers have equal shares of n, those before one more where it does not divide; author-sets take turns in each.
    Where a tier has fewer combinations than its share, it is as large as they are many; count them.

    Raises ParameterError for lengths that do not fit the spans, n below 3 or an unknown split, TooFewError where no
    author-set has two documents in the split, or no tier a triplet.
    """
    if n < len(TIERS):
        raise ParameterError(f"n: {n} triplets; at least {len(TIERS)}, one a tier")
    pool = measured(spans, lengths, split)
    rows = []
    for number, tier in enumerate(TIERS):
        share = n // len(TIERS) + (number < n % len(TIERS))
        draw = np.random.default_rng([seed, number])
        chance = draw.random(len(spans))
        nearest = pool.ordered(
            lambda row, chance=chance: (abs(lengths[row["row"]] - target), chance[row["row"]])
        )
        rows += [row | {"tier": tier} for row in _tier(nearest, _CHOICES[tier], share, draw)]
    if not rows:
        raise TooFewError(f"split {split!r}: no anchor has both a positive and a negative in any tier")
    return datasets.Dataset.from_list(rows)


def measured(spans: datasets.Dataset, lengths: Sequence[int], split: str) -> SpanPool:
    """`anchored` after a check that there is a length for every span."""
    if len(lengths) != len(spans):
        raise ParameterError(f"lengths: {len(lengths)} for {len(spans)} spans; one each is needed")
    return anchored(spans, split)


Choice = Callable[[SpanPool, dict], tuple[list[dict], list[dict]]]


def _tier_a(pool: SpanPool, anchor: dict) -> tuple[list[dict], list[dict]]:
    own = other_documents(pool, anchor)
    near = [row for row in own if row["domain"] == anchor["domain"]]
    return near or own, strangers(pool, anchor)


def _tier_b(pool: SpanPool, anchor: dict) -> tuple[list[dict], list[dict]]:
    kin = [r for r in pool.rows if r["authors"] & anchor["authors"] and r["authors"] != anchor["authors"]]
    return other_documents(pool, anchor), kin


def _tier_c(pool: SpanPool, anchor: dict) -> tuple[list[dict], list[dict]]:
    far = [row for row in other_documents(pool, anchor) if row["domain"] != anchor["domain"]]
    return far, strangers(pool, anchor)


_CHOICES: dict[str, Choice] = {"A": _tier_a, "B": _tier_b, "C": _tier_c}


def other_documents(pool: SpanPool, anchor: dict) -> list[dict]:
    """The texts by the anchor's author-set from its other documents: its positives."""
    return [row for row in pool.by_set[anchor["author_set"]] if row["document"] != anchor["document"]]


def strangers(pool: SpanPool, anchor: dict) -> list[dict]:
    """The texts of the anchor's domain that none of its authors has written: its hard negatives."""
    return [row for row in pool.by_domain[anchor["domain"]] if not row["authors"] & anchor["authors"]]


def _tier(pool: SpanPool, choose: Choice, n: int, draw: np.random.Generator) -> list[dict]:
    """Up to n triplets, one author-set after the other, until none has an anchor left."""
    waiting = {
        pool.anchors[i]: list(pool.by_set[pool.anchors[i]]) for i in draw.permutation(len(pool.anchors))
    }
    # Which texts fit an anchor depends on its document alone.
    fitting = {rows[0]["document"]: choose(pool, rows[0]) for rows in pool.by_document.values()}
    found: list[dict] = []
    used: set[int] = set()
    while waiting and len(found) < n:
        for name in list(waiting):
            if len(found) == n:
                break
            triplet = _next(waiting[name], fitting, used)
            if triplet is None:
                del waiting[name]
            else:
                found.append(triplet)
    return found


def _next(
    anchors: list[dict], fitting: dict[str, tuple[list[dict], list[dict]]], used: set[int]
) -> dict | None:
    """The first anchor that has a positive and a negative, which are texts used before only where none is fresh."""
    while anchors:
        anchor = anchors.pop(0)
        positives, negatives = fitting[anchor["document"]]
        if positives and negatives:
            chosen = [anchor]
            for rows in (positives, negatives):
                chosen.append(next((row for row in rows if row["row"] not in used), rows[0]))
            used |= {row["row"] for row in chosen}
            return triplet_row(*chosen)
    return None
