"""Retrieval against a whole gallery: every anchor against every positive and hard negative of the split."""

from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from jaxtyping import Float

from readout.authorship.vectors import Vectors
from readout.lenses.retrieval import PerQuery, retrieval, retrieval_as_published
from readout.scorers import Scorer

BLOCK = 64  # texts compared at a time: their padded vectors are a few megabytes


@dataclass(frozen=True)
class Gallery:
    """Queries and keys with what tells which belong together; a text that several triplets share is one key.

    positive: for each query, the index of its own positive among the keys.
    """

    queries: list[str]
    keys: list[str]
    query_sets: list[str]
    key_sets: list[str]
    query_documents: list[str]
    key_documents: list[str]
    positive: list[int]

    @classmethod
    def of(cls, triplets: Dataset) -> "Gallery":
        """The gallery of some triplets: their anchors against all of their positives and negatives."""
        found: dict[tuple[str, str], int] = {}
        sets: list[str] = []
        for part in ("positive", "negative"):
            columns = (triplets[f"{part}{name}"][:] for name in ("_document", "", "_author_set"))
            for document, text, author_set in zip(*columns, strict=True):
                if (document, text) not in found:
                    found[document, text] = len(found)
                    sets.append(author_set)
        own = zip(triplets["positive_document"][:], triplets["positive"][:], strict=True)
        return cls(
            queries=triplets["anchor"][:],
            keys=[text for _, text in found],
            query_sets=triplets["anchor_author_set"][:],
            key_sets=sets,
            query_documents=triplets["anchor_document"][:],
            key_documents=[document for document, _ in found],
            positive=[found[key] for key in own],
        )

    @property
    def texts(self) -> list[str]:
        """Queries, then keys: what is read."""
        return [*self.queries, *self.keys]

    def scores(self, scorer: Scorer, vectors: Vectors) -> Float[np.ndarray, "query key"]:
        """Every query against every key, from the vectors of `texts`; memory is one block of each."""
        n = len(self.queries)
        queries = [vectors.tokens(range(n)[at : at + BLOCK]) for at in range(0, n, BLOCK)]
        keys = range(n, len(vectors))
        columns = []
        with torch.no_grad():
            for at in range(0, len(keys), BLOCK):
                block = vectors.tokens(keys[at : at + BLOCK])
                columns.append(torch.cat([scorer.score(some, block).cpu() for some in queries]))
        return torch.cat(columns, dim=1).double().numpy()

    def evaluate(self, scores: Float[np.ndarray, "query key"]) -> PerQuery:
        """What the ranking is worth, query by query."""
        return retrieval(
            scores, self.query_sets, self.key_sets, self.query_documents, self.key_documents, self.positive
        )

    def evaluate_as_published(self, scores: Float[np.ndarray, "query key"]) -> PerQuery:
        """The same with the keys of a query's own document left in its ranking."""
        return retrieval_as_published(scores, self.query_sets, self.key_sets, self.positive)
