"""Where gradient goes, on a small encoder: closed forms on real vectors, and the gradient that reaches each layer."""

import pytest
import torch

from readout.authorship import gradients
from readout.authorship.vectors import read_vectors
from readout.errors import ParameterError
from readout.scorers import scorer_of

from ..training.small import contrastive
from .authored import encoder_of, spans_of, tokenizer

TEXTS = spans_of(2, 2)["text"][:]


@pytest.mark.parametrize("name", ["mean", "li", "li-all", "pli-1", "pli-3"])
def test_closed_forms_are_autograd_on_vectors_of_texts(name):
    vectors = read_vectors(encoder_of(), tokenizer(), TEXTS)
    for a, b in ((0, 1), (2, 7)):
        kept = vectors.content[a]
        assert gradients.closed_form_error(scorer_of(name), vectors.texts[a], vectors.texts[b], kept) < 1e-5


def test_a_wrong_closed_form_would_be_seen(monkeypatch):
    vectors = read_vectors(encoder_of(), tokenizer(), TEXTS)
    wrong = lambda *pair: gradients.mean_gradients(*pair[1:3])  # noqa: E731
    monkeypatch.setattr(gradients, "pair_gradients", wrong)
    error = gradients.closed_form_error(
        scorer_of("li"), vectors.texts[0], vectors.texts[1], vectors.content[0]
    )
    assert error > 0.1


def test_a_scorer_without_a_closed_form_is_refused():
    with pytest.raises(ParameterError, match="has no closed form here"):
        gradients.pair_gradients(
            scorer_of("li-mean"), torch.ones(1, 2), torch.ones(1, 2), torch.tensor([True])
        )


@pytest.mark.parametrize("scorer", ["mean", "li"])
def test_layer_norms_halve_when_the_temperature_doubles_and_leave_no_gradient_behind(scorer):
    encoder = encoder_of().double()
    objective = contrastive(encoder, scorer=scorer)
    monitored = gradients.layer_norms(objective, 0)
    assert len(monitored) == encoder.n_layers + 1
    assert (monitored > 0).all()
    assert all(parameter.grad is None for parameter in encoder.parameters())
    # Doubling the temperature of the loss about halves every slope; the profile over layers stays.
    objective.temperature *= 1000
    colder = gradients.layer_norms(objective, 0)
    objective.temperature *= 2
    torch.testing.assert_close(gradients.layer_norms(objective, 0), colder / 2, rtol=1e-2, atol=0)
