"""The gallery of a split: which keys there are, which is whose positive, and scores in blocks as in one piece."""

import numpy as np
import pytest
from datasets import Dataset

from readout.authorship import gallery as module
from readout.authorship.gallery import Gallery
from readout.authorship.vectors import read_vectors
from readout.scorers import scorer_of
from readout.sources.triplets import draw_triplets

from .authored import encoder_of, spans_of, tokenizer


def triplet(anchor, positive, negative):
    """Each part: text, author-set, document."""
    parts = {"anchor": anchor, "positive": positive, "negative": negative}
    return {
        f"{part}{name}": value
        for part, values in parts.items()
        for name, value in zip(("", "_author_set", "_document"), values, strict=True)
    }


SHARED, FOREIGN = ("w1", "ann", "d1"), ("w2", "bob", "d2")
TRIPLETS = Dataset.from_list(
    [
        triplet(("w5", "ann", "d0"), SHARED, FOREIGN),
        triplet(("w6", "bob", "d3"), FOREIGN, SHARED),  # both are there already
        triplet(
            ("w7", "ann", "d0"), ("w1", "ann", "d4"), FOREIGN
        ),  # the text of SHARED, from another document
        triplet(("w8", "ann", "d0"), SHARED, ("w9", "cid", "d5")),
    ]
)


def test_a_text_that_triplets_share_is_one_key():
    gallery = Gallery.of(TRIPLETS)
    assert gallery.keys == ["w1", "w2", "w1", "w9"]
    assert gallery.key_documents == ["d1", "d2", "d4", "d5"]
    assert gallery.key_sets == ["ann", "bob", "ann", "cid"]
    assert gallery.positive == [0, 1, 2, 0]
    assert gallery.texts == ["w5", "w6", "w7", "w8", "w1", "w2", "w1", "w9"]


def test_drawn_triplets_find_their_positives_and_hold_every_negative():
    triplets = draw_triplets(spans_of(), 40)
    gallery = Gallery.of(triplets)
    keys = list(zip(gallery.key_documents, gallery.keys, strict=True))
    assert len(set(keys)) == len(keys)
    for part in ("positive", "negative"):
        assert set(zip(triplets[f"{part}_document"], triplets[part], strict=True)) <= set(keys)
    own = list(zip(triplets["positive_document"], triplets["positive"], strict=True))
    assert [keys[index] for index in gallery.positive] == own
    assert [gallery.key_sets[index] for index in gallery.positive] == gallery.query_sets


@pytest.mark.parametrize("name", ["mean", "li", "pli-2"])
def test_scores_in_blocks_are_those_of_one_call(name, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 5)
    gallery = Gallery.of(draw_triplets(spans_of(), 12))
    vectors = read_vectors(encoder_of(), tokenizer(), gallery.texts)
    n, scorer = len(gallery.queries), scorer_of(name)
    whole = scorer.score(vectors.tokens(range(n)), vectors.tokens(range(n, len(vectors))))
    found = gallery.scores(scorer, vectors)
    assert found.dtype == np.float64
    assert found.shape == (n, len(gallery.keys))
    np.testing.assert_allclose(found, whole.numpy(), rtol=1e-4, atol=1e-5)


def test_what_a_ranking_is_worth():
    scores = np.array([[1.0, 2, 3, 0], [1, 2, 0, 0], [1, 2, 3, 0], [1, 2, 3, 0]])
    found = Gallery.of(TRIPLETS).evaluate(scores)
    np.testing.assert_allclose(found.values["MRR"], [1 / 3, 1, 1, 1 / 3])
    np.testing.assert_allclose(found.values["R@20"], 1)
