"""The intervals cover what they should, and a bootstrap with replacement is shown to be wrong where it is."""

import numpy as np
import pytest
import torch

from readout.errors import ParameterError, TooFewError
from readout.lenses.intervals import cluster_bootstrap, cluster_weights, subsample


def test_clusters_are_drawn_whole_and_in_the_right_number():
    clusters = np.repeat(np.arange(5), [1, 2, 3, 4, 5])
    weights = cluster_weights(clusters.tolist(), 200, seed=1)
    first = np.array([weights[:, clusters == c][:, 0] for c in range(5)])
    assert (first.sum(0) == 5).all()
    assert all((weights[:, clusters == c] == first[c][:, None]).all() for c in range(5))


def test_mean_and_interval_against_a_loop():
    rng = np.random.default_rng(0)
    values, clusters = rng.normal(size=(3, 40)), rng.integers(0, 8, 40).tolist()
    got = cluster_bootstrap(values, clusters, n_resamples=300, seed=5)
    weights = cluster_weights(clusters, 300, 5)
    for site in range(3):
        means = [np.repeat(values[site], w).mean() for w in weights]
        np.testing.assert_allclose(got.value[site], values[site].mean())
        np.testing.assert_allclose([got.low[site], got.high[site]], np.quantile(means, [0.025, 0.975]))


def test_cluster_interval_covers_where_the_naive_one_does_not():
    covered = {"cluster": 0, "text": 0}
    for trial in range(120):
        rng = np.random.default_rng(trial)
        author = np.repeat(np.arange(20), 10)
        values = (rng.normal(size=20)[author] + 0.3 * rng.normal(size=200))[None]
        for kind, clusters in (("cluster", author), ("text", np.arange(200))):
            got = cluster_bootstrap(values, clusters.tolist(), n_resamples=200, seed=trial)
            covered[kind] += bool(got.low[0] <= 0 <= got.high[0])
    assert covered["cluster"] >= 0.85 * 120
    assert covered["text"] <= 0.65 * 120


def test_undefined_texts_are_left_out_and_counted():
    got = cluster_bootstrap(np.array([[1.0, np.nan, 3.0, 5.0]]), ["a", "b", "c", "d"])
    assert got.value[0] == 3.0
    assert got.n[0] == 3
    with pytest.raises(TooFewError, match="no text with a defined value"):
        cluster_bootstrap(np.full((1, 4), np.nan), ["a", "b", "c", "d"])


def test_statistic_over_sites_is_resampled_as_one():
    rng = np.random.default_rng(0)
    base = rng.normal(size=50)
    values = np.stack([base, base - 1.0])  # the sites move together: their difference has no spread
    got = cluster_bootstrap(values, list(range(50)), statistic=lambda m: m[:1] - m[1:])
    np.testing.assert_allclose([got.value[0], got.low[0], got.high[0]], 1.0)


def test_half_samples_give_the_standard_error_of_a_mean():
    x = np.random.default_rng(3).normal(size=400)
    got = subsample(lambda rows: x[rows].mean(keepdims=True), list(range(400)), n_resamples=800, seed=0)
    expected = 2 * 1.96 * x.std(ddof=1) / 20
    assert got.high[0] - got.low[0] == pytest.approx(expected, rel=0.12)


def test_a_bootstrap_with_replacement_biases_an_entropy():
    """The reason `subsample` exists: repeated rows alone lower the dataset entropy, half-samples do not."""
    from readout.lenses import matrix_entropy

    x = torch.randn(60, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    full = float(matrix_entropy(x))
    resampled = [float(matrix_entropy(x[rng.integers(0, 60, 60)])) for _ in range(20)]
    assert max(resampled) < full - 0.3
    got = subsample(
        lambda rows: np.array([float(matrix_entropy(x[rows])) - np.log(len(rows))]),
        list(range(60)),
        n_resamples=30,
    )
    assert got.low[0] <= full - np.log(60) <= got.high[0]


@pytest.mark.parametrize(("level", "n_resamples"), [(0.0, 100), (1.0, 100), (95.0, 100), (0.95, 1)])
def test_bad_arguments_are_named(level, n_resamples):
    for call in (
        lambda: cluster_bootstrap(np.ones((1, 4)), list("abcd"), level=level, n_resamples=n_resamples),
        lambda: subsample(lambda rows: np.ones(1), list("abcd"), level=level, n_resamples=n_resamples),
    ):
        with pytest.raises(ParameterError, match=r"level=|n_resamples="):
            call()


def test_too_few_clusters():
    with pytest.raises(TooFewError, match="at least 2"):
        cluster_bootstrap(np.ones((1, 4)), ["a"] * 4)
    with pytest.raises(TooFewError, match="at least 4"):
        subsample(lambda rows: np.ones(1), list("abc"))
