import pytest
import torch

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses.alignment import debiased_cka, debiased_hsic, fit_averaging_null

from .alignment_oracles import independent

COUNTS = torch.tensor([1, 2, 4, 8, 16, 32])


def signal_and_noise(n=500, n_seeds=3, n_tokens=32, noise=2.0, d=12, seed=0):
    """States s + e with known Σ_s and Σ_e, and a target that shares the signal."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    a, b = draw(5, d), draw(d, d) / d**0.5 * noise
    latent = draw(n, 5)
    states = (latent @ a)[None, :, None] + draw(n_seeds, n, n_tokens, d) @ b
    target = latent @ draw(5, 8) + 2 * draw(n, 8)
    return states, target, a.T @ a, b.T @ b


def averaged(states, target):
    """Measured CKA of the mean over the first T tokens, averaged over seeds."""
    means = [states[:, :, :t].mean(2) for t in COUNTS]
    return torch.stack([torch.stack([debiased_cka(h, target) for h in m]).mean() for m in means])


def test_moments_of_signal_and_noise_are_recovered():
    states, target, signal, noise = signal_and_noise(n=2000, n_tokens=4)
    fit = fit_averaging_null(states, target)
    assert fit.signal == pytest.approx(float(signal.square().sum()), rel=0.1)
    assert fit.noise == pytest.approx(float(noise.square().sum()), rel=0.1)
    assert fit.cross == pytest.approx(float((signal * noise).sum()), rel=0.1)


@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_curve_of_signal_and_independent_noise_is_predicted(noise):
    states, target, *_ = signal_and_noise(noise=noise)
    fit = fit_averaging_null(states, target)
    predicted = fit.predict(COUNTS)
    assert (predicted.diff() > 0).all()
    assert float(predicted[-1]) < fit.signal_cka
    torch.testing.assert_close(predicted, averaged(states, target), rtol=0, atol=0.02)
    assert noise < 4 or float(predicted[-1]) > 1.5 * float(predicted[0])


def test_segment_means_give_the_noise_of_one_token():
    states, target, *_ = signal_and_noise(noise=4.0)
    segments = states.unflatten(2, (8, 4)).mean(3)
    by_segment = fit_averaging_null(segments, target, tokens_each=4).predict(COUNTS)
    torch.testing.assert_close(
        by_segment, fit_averaging_null(states, target).predict(COUNTS), rtol=0, atol=0.03
    )


def test_a_signal_that_comes_late_rises_above_the_prediction_from_the_early_tokens():
    states, target, *_ = signal_and_noise(noise=12.0)
    late = torch.linspace(0.3, 3, 32, dtype=torch.float64)[:, None] * states.mean((0, 2))[:, None]
    measured = averaged(states + late, target)
    predicted = fit_averaging_null((states + late)[:, :, :4], target).predict(COUNTS)
    assert float(measured[4] - predicted[4]) > 0.02


def test_noise_that_lasts_within_a_seed_stays_below_the_prediction():
    states, target, *_ = signal_and_noise()
    lasting = states + 3 * torch.randn(
        3, 500, 1, 12, generator=torch.Generator().manual_seed(1), dtype=states.dtype
    )
    gap = fit_averaging_null(lasting, target).predict(COUNTS) - averaged(lasting, target)
    assert abs(float(gap[0])) < 0.02 < 0.1 < float(gap[-1])


def test_fit_is_invariant_to_rotation_and_its_curve_to_scale():
    states, target, *_ = signal_and_noise(n=60, n_tokens=3)
    q, _ = torch.linalg.qr(
        torch.randn(12, 12, generator=torch.Generator().manual_seed(0), dtype=states.dtype)
    )
    fit, turned = fit_averaging_null(states, target), fit_averaging_null(3 * states @ q + 1, target)
    assert turned.signal == pytest.approx(81 * fit.signal)
    torch.testing.assert_close(turned.predict(COUNTS), fit.predict(COUNTS))


def test_bad_input_is_refused():
    states, target, *_ = signal_and_noise(n=40, n_tokens=2)
    with pytest.raises(TooFewError, match="1 seeds and 2 positions"):
        fit_averaging_null(states[:1], target)
    with pytest.raises(ParameterError, match="tokens_each=0"):
        fit_averaging_null(states, target, tokens_each=0)
    with pytest.raises(NonFiniteError, match="states holds NaN"):
        fit_averaging_null(states / 0, target)
    with pytest.raises(ParameterError, match="n_tokens holds 0"):
        fit_averaging_null(states, target).predict(torch.tensor([0, 1]))
    with pytest.raises(ParameterError, match="states has 40 texts and target 39"):
        fit_averaging_null.__wrapped__(states, target[1:])
    unrelated = next(pair for seed in range(99) if debiased_hsic(*(pair := independent(40, 6, 6, seed))) < 0)
    with pytest.raises(DegenerateError, match="share a signal"):
        fit_averaging_null(torch.stack(unrelated)[:, :, None], target)
