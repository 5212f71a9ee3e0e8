import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import center, unit_rows
from readout.lenses.alignment import (
    CkaTarget,
    biased_cka,
    cka,
    cka_as_published,
    corrected_steps,
    debiased_cka,
    debiased_cka_many,
    published_steps,
)

from .alignment_oracles import cka as oracle
from .alignment_oracles import correlated, independent, near_identical


@pytest.mark.parametrize("d", [3, 60], ids=["features", "grams"])
def test_equals_the_formula(d):
    x, y = correlated(d=d)
    assert float(debiased_cka(x, y)) == pytest.approx(oracle(x, y), rel=1e-12)
    assert float(debiased_cka(x, x)) == pytest.approx(1, abs=1e-12)


@settings(deadline=None)
@given(seed=st.integers(0, 999), scale=st.floats(1e-3, 1e3), d=st.integers(2, 50))
def test_rotation_shift_and_one_scale_change_nothing(seed, scale, d):
    x, y = correlated(n=20, d=d, seed=seed)
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=x.dtype))
    want = debiased_cka(x, y)
    assert -1 <= float(want) <= 1
    torch.testing.assert_close(debiased_cka(scale * x @ q + 1, y), want, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(biased_cka(scale * x @ q + 1, y), biased_cka(x, y), rtol=1e-8, atol=1e-9)


@given(seed=st.integers(0, 999), low=st.floats(0.01, 1))
def test_after_unit_rows_any_positive_scale_per_row_changes_nothing(seed, low):
    x, y = correlated(n=15, seed=seed)
    scales = torch.linspace(low, 7, len(x), dtype=x.dtype)[:, None]
    torch.testing.assert_close(debiased_cka(unit_rows(scales * x), y), debiased_cka(unit_rows(x), y))


def test_order_of_texts_does_not_matter_but_their_pairing_does():
    x, y = correlated()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(debiased_cka(x[order], y[order]), debiased_cka(x, y))
    assert float(debiased_cka(x[order], y)) < 0.2 < 0.4 < float(debiased_cka(x, y))


def test_clipping_is_not_invariant_to_rotation():
    x, y = correlated()
    q, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=x.dtype))
    got = debiased_cka(published_steps(x @ q), y) - debiased_cka(published_steps(x), y)
    assert abs(float(got)) > 1e-3


@pytest.mark.parametrize(("n", "d", "d2"), [(300, 800, 100), (300, 40, 30), (64, 2000, 2000)])
def test_independent_features_score_zero_unless_biased(n, d, d2):
    x, y = independent(n, d, d2)
    assert abs(float(debiased_cka(x, y))) < 3 * math.sqrt(2) / n
    assert float(biased_cka(x, y)) > 0.1


@pytest.mark.parametrize("other", ["one-sided", "two-sided"])
@pytest.mark.parametrize("cosine", [0.9998, 0.999998])
def test_near_identical_states_keep_their_digits(other, cosine):
    x = near_identical(cosine=cosine)
    assert float((x @ x.T).mean()) == pytest.approx(cosine, abs=(1 - cosine) / 10)
    y = correlated(60, 32, 9)[1] if other == "one-sided" else near_identical(d=20, cosine=cosine)
    assert 0.3 < oracle(x, y) < 0.999
    assert float(debiased_cka(x, y)) == pytest.approx(oracle(x, y), abs=1e-6)
    torch.testing.assert_close(debiased_cka(x, y), debiased_cka(center(x), center(y)), rtol=1e-9, atol=0)


def test_published_form_agrees_on_spread_states():
    x, y = correlated(n=200, d=64, d2=32, noise=1.0)
    want = debiased_cka(published_steps(x), published_steps(y))
    assert float(cka_as_published(x.float(), y.float())) == pytest.approx(float(want), abs=1e-4)
    torch.testing.assert_close(debiased_cka(corrected_steps(x), corrected_steps(y)), want)


def test_the_constant_alone_pulls_near_identical_states_down():
    x, y = near_identical(), near_identical(d=20)
    own = float(np.sqrt(float(cka.self_hsic_of_centered(center(x)) * cka.self_hsic_of_centered(center(y)))))
    assert (
        own / (own + 1e-6) < 0.2
    )  # what 1e-6 in the denominator does at mean cosine .9998, even without rounding


@pytest.mark.parametrize("cosine", [0.9998, 0.99998])
@pytest.mark.parametrize("other", ["one-sided", "two-sided"])
def test_published_form_is_wrong_or_undefined_on_near_identical_states(other, cosine):
    x = near_identical(200, 64, cosine=cosine).float()
    y = correlated(200, 64, 9)[1] if other == "one-sided" else near_identical(200, 40, cosine=cosine)
    right = float(debiased_cka(published_steps(x), published_steps(y)))
    try:
        published = float(cka_as_published(x, y.float()))
    except DegenerateError as error:
        assert "rounding in float32" in str(error)  # noqa: PT017
    else:
        assert abs(published - right) > 0.1
        assert other == "one-sided" or abs(published) < right


def test_published_form_is_not_invariant_to_translation():
    """A vector that all texts share leaves their differences, and the debiased value of given features, alone."""
    x, y = correlated()
    far = x + 3
    torch.testing.assert_close(debiased_cka(far, y), debiased_cka(x, y))
    assert abs(float(cka_as_published(far, y)) - float(cka_as_published(x, y))) > 0.02


@pytest.mark.parametrize("d", [3, 60], ids=["features", "grams"])
def test_many_at_once_equal_one_at_a_time_whatever_the_chunk(d, monkeypatch):
    _, y = correlated()
    sets = torch.stack([correlated(d=d, seed=seed)[0] for seed in range(7)]).float()
    for prepare in (None, corrected_steps):
        one = (lambda z: z) if prepare is None else prepare
        want = torch.stack([debiased_cka(one(x), one(y)) for x in sets])
        for entries in (2**24, 1, 5 * 40 * 60):
            monkeypatch.setattr(cka, "CHUNK_ENTRIES", entries)
            torch.testing.assert_close(debiased_cka_many(sets, y, prepare=prepare), want)
    assert debiased_cka_many(sets[:0], y).shape == (0,)


def test_half_precision_does_not_overflow():
    x, y = correlated(d=50)
    big = (1000 * x).half()
    assert float(debiased_cka(big, y)) == pytest.approx(float(debiased_cka(x, y)), abs=1e-3)
    torch.testing.assert_close(debiased_cka_many(big[None], y)[0], debiased_cka(big, y))


@settings(deadline=None, max_examples=30)
@given(n=st.integers(4, 12), d=st.integers(1, 12), constant=st.floats(-1e3, 1e3))
def test_features_without_variation_are_refused_by_name(n, d, constant):
    y = torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
    flat = torch.full((n, d), constant)
    one = flat.clone()
    one[0] += 1  # one text that differs: every pair of the others is alike
    assume((one[0] != flat[0]).all())
    for x in (flat, one):
        with pytest.raises(DegenerateError, match=r"^x is constant"):
            debiased_cka(x, y)
        with pytest.raises(DegenerateError, match=r"^y is constant"):
            debiased_cka(y, x)
        with pytest.raises(DegenerateError, match=r"^target is constant"):
            CkaTarget(x)
        with pytest.raises(DegenerateError, match=r"^features\[0\] is constant"):
            debiased_cka_many(x[None], y)
    with pytest.raises(DegenerateError, match=r"^x is constant"):
        biased_cka(flat, y)


def test_bad_input_is_refused(monkeypatch):
    x, y = correlated()
    for metric in (debiased_cka, biased_cka, cka_as_published):
        with pytest.raises(TooFewError, match="3 texts"):
            metric(x[:3], y[:3])
        with pytest.raises(NonFiniteError, match="y holds NaN"):
            metric(x, y * torch.nan)
        with pytest.raises(ParameterError, match="rows"):
            metric.__wrapped__(x, y[1:])
    with pytest.raises(DegenerateError, match="y has a row of length 0"):
        cka_as_published(x, y * (torch.arange(len(y)) > 0)[:, None])
    with pytest.raises(ParameterError, match="features has 39 texts and target 40"):
        CkaTarget(y).cka(x[None, 1:])
    monkeypatch.setattr(cka, "CHUNK_ENTRIES", 1)
    with pytest.raises(DegenerateError, match=r"features\[2\]"):
        debiased_cka_many(torch.stack([x, x, 0 * x]), y)
