"""Seams: with one model on both sides nothing changes, and the last exit is no exit."""

from types import SimpleNamespace

import numpy as np
import pytest

from readout.authorship import stitching
from readout.authorship.gallery import Gallery
from readout.authorship.runs import Training
from readout.authorship.vectors import read_vectors
from readout.scorers import scorer_of
from readout.sources.triplets import draw_triplets

from .authored import backbone, encoder_of, spans_of, tokenizer

GALLERY = Gallery.of(draw_triplets(spans_of(split="test"), 6, split="test"))


def training_of(base, trained):
    training = Training.__new__(Training)
    training.plan = SimpleNamespace(scorer=scorer_of)
    training.reader = SimpleNamespace(model=base, tokenizer=tokenizer())
    training.precision, training.encoder = "float32", lambda name, seed: trained
    return training


def values(per_query):
    return np.stack(list(per_query.values.values()))


@pytest.mark.parametrize("head", [False, True])
def test_seams_between_a_model_and_itself_change_nothing(head):
    trained = encoder_of(head=head)
    found = list(stitching.seams(training_of(trained.backbone, trained), "li", GALLERY))
    assert [(s.intervention, s.layer) for s in found[:3]] == [
        (stitching.PRETRAINED_BELOW, 0),
        (stitching.TRAINED_BELOW, 0),
        (stitching.EARLY_EXIT, 0),
    ]
    whole = GALLERY.evaluate(
        GALLERY.scores(scorer_of("li"), read_vectors(trained, tokenizer(), GALLERY.texts))
    )
    for seam in found:
        if seam.intervention != stitching.EARLY_EXIT or seam.layer == trained.n_layers:
            np.testing.assert_array_equal(values(seam.per_query), values(whole))


def test_the_ends_of_a_stitch_are_the_two_models():
    base, trained = backbone(seed=3), encoder_of()
    found = {
        (s.intervention, s.layer): s for s in stitching.seams(training_of(base, trained), "mean", GALLERY)
    }
    vectors = read_vectors(trained, tokenizer(), GALLERY.texts)
    whole = GALLERY.evaluate(GALLERY.scores(scorer_of("mean"), vectors))
    last = found[stitching.TRAINED_BELOW, trained.n_layers]  # BERT has no final norm to tell them apart
    np.testing.assert_array_equal(values(last.per_query), values(whole))
    first = found[stitching.TRAINED_BELOW, 0]
    assert not np.array_equal(values(first.per_query), values(whole))
