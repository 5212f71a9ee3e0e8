"""The streaming ridge against scikit-learn on all rows at once, and the invariances of a ridge."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses.probes import RidgeFitter


def data(n=40, features=6, targets=3, seed=0):
    """Far from 0 and of unequal spread, so that centring and the lack of scaling show."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) * np.linspace(0.5, 3, features) + 20
    y = x @ rng.normal(size=(features, targets)) + 2 * rng.normal(size=(n, targets)) - 7
    return torch.from_numpy(x), torch.from_numpy(y)


def fitted(x, y, *, batches=1, fold=None, n_folds=1):
    fitter = RidgeFitter(x.shape[1], y.shape[1], n_folds)
    folds = [None] * batches if fold is None else fold.tensor_split(batches)
    for rows, targets, k in zip(x.tensor_split(batches), y.tensor_split(batches), folds, strict=True):
        fitter.update(rows, targets, k)
    return fitter


@pytest.mark.parametrize(("n", "features"), [(40, 6), (10, 30), (2, 5)])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 300.0])
def test_weights_and_predictions_are_those_of_sklearn(n, features, alpha):
    x, y = data(n, features)
    probe, oracle = fitted(x, y, batches=2).fit(alpha), Ridge(alpha=alpha, solver="svd").fit(x, y)
    np.testing.assert_allclose(probe.weight.T, oracle.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(probe.intercept, oracle.intercept_, rtol=1e-7)
    np.testing.assert_allclose(probe.predict(x + 1), oracle.predict(x + 1), rtol=1e-7)


def test_float32_states_are_summed_in_float64():
    x, y = (each.float() for each in data(200))
    probe = fitted(x + 3000, y, batches=7).fit(1.0)
    assert probe.weight.dtype == torch.float64
    oracle = Ridge(alpha=1.0).fit((x + 3000).double(), y.double())
    np.testing.assert_allclose(probe.weight.T, oracle.coef_, rtol=1e-6)


def test_penalty_is_the_one_a_search_over_held_out_groups_finds():
    x, y = data(60, 20)
    documents = np.repeat(np.arange(12), 5)
    alphas = [0.1, 1.0, 10.0, 100.0, 1000.0]
    splits = list(GroupKFold(4).split(x, groups=documents))
    fold = torch.zeros(60, dtype=torch.long)
    for k, (_, held_out) in enumerate(splits):
        fold[held_out] = k
    probe = fitted(x, y, batches=3, fold=fold, n_folds=4).fit_cv(alphas)
    for target in range(3):
        search = GridSearchCV(Ridge(), {"alpha": alphas}, cv=splits, scoring="neg_mean_squared_error")
        best = search.fit(x, y[:, target])
        assert probe.alpha[target] == best.best_params_["alpha"]
        np.testing.assert_allclose(probe.weight[:, target], best.best_estimator_.coef_, rtol=1e-7)
    assert len(set(probe.alpha.tolist())) > 1, "each target has its own"


def test_held_out_errors_are_summed_over_unequal_folds():
    x, y = data(30, 25, seed=3)
    fold = torch.tensor([0] * 3 + [1] * 9 + [2] * 18)
    alphas = torch.tensor([0.1, 5.0, 70.0], dtype=torch.float64)
    fitter = fitted(x, y, fold=fold, n_folds=3)
    got = sum(fitter._held_out(k, alphas) for k in range(3))
    for row, alpha in zip(got, alphas.tolist(), strict=True):
        slow = [
            (Ridge(alpha).fit(x[fold != k], y[fold != k]).predict(x[fold == k]) - y[fold == k].numpy()) ** 2
            for k in range(3)
        ]
        np.testing.assert_allclose(row, np.concatenate(slow).sum(0), rtol=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), batches=st.integers(1, 9), n=st.integers(4, 25))
def test_neither_order_nor_batches_nor_a_rotation_matter(seed, batches, n):
    x, y = data(n, 5, seed=seed)
    fold = torch.arange(n) % 2
    probe = fitted(x, y, fold=fold, n_folds=2).fit_cv([0.5, 50.0])
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    mixed = fitted(x[order], y[order], batches=batches, fold=fold[order], n_folds=2).fit_cv([0.5, 50.0])
    torch.testing.assert_close(mixed.weight, probe.weight, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(mixed.intercept, probe.intercept, rtol=1e-6, atol=1e-6)
    rotation = torch.linalg.qr(torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 5))))[0]
    turned = fitted(x @ rotation, y, fold=fold, n_folds=2).fit_cv([0.5, 50.0])
    torch.testing.assert_close(turned.predict(x @ rotation), probe.predict(x), rtol=1e-6, atol=1e-6)


def test_a_constant_target_is_told_and_predicted_exactly():
    x, y = data()
    y[:, 1] = 0.1  # no binary fraction: its mean over rows is rounded
    probe = fitted(x, y, batches=5, fold=torch.arange(40) % 3, n_folds=3).fit_cv([1.0, 10.0])
    assert probe.constant.tolist() == [False, True, False]
    assert (probe.predict(x)[:, 1] == 0.1).all()


def test_constant_features_are_no_harm():
    x, y = data()
    probe = fitted(torch.cat([x, torch.full((40, 2), 5.0)], dim=1), y).fit(1.0)
    np.testing.assert_allclose(probe.weight[:6], fitted(x, y).fit(1.0).weight, rtol=1e-9)
    assert probe.weight[6:].abs().max() < 1e-12


def test_empty_batches_and_empty_folds_are_passed_over():
    x, y = data()
    fitter = fitted(x, y, fold=torch.arange(40) % 2, n_folds=9)
    fitter.update(x[:0], y[:0], torch.arange(0))
    torch.testing.assert_close(fitter.fit(1.0).weight, fitted(x, y).fit(1.0).weight)
    assert fitter.fit_cv([1.0]).alpha.tolist() == [1.0] * 3


def test_bad_rows_are_refused():
    x, y = data()
    fitter = RidgeFitter(6, 3, n_folds=2)
    fold = torch.zeros(40, dtype=torch.long)
    for name, bad in (("x", (x / 0, y)), ("y", (x, y * torch.nan))):
        with pytest.raises(NonFiniteError, match=f"{name}: holds NaN"):
            fitter.update(*bad, fold)
    for bad in ((x[:, :5], y, fold), (x, y[:, :2], fold), (x[:9], y, fold)):
        with pytest.raises(ParameterError, match=r"should be \[row 6\] and \[row 3\]"):
            fitter._checked(
                *bad
            )  # the shapes in the signature of `update` are checked before, in tests alone
    for bad_fold in (fold + 2, fold - 1, fold[:9]):
        with pytest.raises(ParameterError, match="40 numbers from 0 to 1"):
            fitter._checked(x, y, bad_fold)
    with pytest.raises(ParameterError, match="fold: missing"):
        fitter.update(x, y)


def test_too_little_to_fit_is_refused():
    x, y = data()
    with pytest.raises(TooFewError, match="0 rows"):
        RidgeFitter(6, 3).fit(1.0)
    with pytest.raises(TooFewError, match="1 rows"):
        fitted(x[:1], y[:1]).fit(1.0)
    with pytest.raises(TooFewError, match="at least 2"):
        fitted(x, y).fit_cv([1.0])
    for alphas in ([], [1.0, 0.0], [-1.0], [float("inf")]):
        with pytest.raises(ParameterError, match="finite and above 0"):
            fitted(x, y).fit_cv(alphas)
    with pytest.raises(ParameterError, match="n_folds=0"):
        RidgeFitter(6, 3, n_folds=0)
