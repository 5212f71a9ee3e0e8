"""Averages of rankings over queries and seeds, and contrasts of them, against loops over resamples."""

import numpy as np
import pytest

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses.intervals import cluster_bootstrap, cluster_weights
from readout.lenses.retrieval import PerQuery
from readout.lenses.retrieval_table import retrieval_contrast, retrieval_table


def runs_of(n_runs, n=40, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    hard, sets = rng.uniform(0, 0.5, n), list(rng.choice(list("abcdefgh"), n))
    values = [{"R@20": hard + shift + rng.uniform(0, 0.1, n), "MRR": hard / 2} for _ in range(n_runs)]
    return [PerQuery(each, np.arange(n), sets, 0) for each in values]


def test_the_table_of_one_run_is_a_cluster_bootstrap():
    (run,) = runs_of(1)
    table = retrieval_table([run], n_resamples=200, level=0.9, seed=3)
    want = cluster_bootstrap(
        np.stack(list(run.values.values())), run.author_sets, n_resamples=200, level=0.9, seed=3
    )
    assert table.columns.tolist() == ["metric", "unit", "value", "low", "high", "level", "n"]
    for name in ("value", "low", "high", "n"):
        np.testing.assert_allclose(table[name].to_numpy(), getattr(want, name))


def test_seeds_are_resampled_beside_authors():
    same_queries = PerQuery({"R@20": np.full(10, 0.2)}, np.arange(10), list("aabbccddee"), 0)
    runs = [
        PerQuery({"R@20": np.full(10, x)}, np.arange(10), same_queries.author_sets, 0)
        for x in (0.2, 0.4, 0.9)
    ]
    # No spread over authors: all of it is that of the seeds.
    found = retrieval_table(runs, n_resamples=4000).iloc[0]
    means = np.random.default_rng(0).choice([0.2, 0.4, 0.9], (100_000, 3)).mean(axis=1)
    assert found["value"] == pytest.approx(0.5)
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(means, [0.025, 0.975]))
    assert found["n"] == 10
    alone = retrieval_table([same_queries]).iloc[0]
    assert alone["low"] == pytest.approx(alone["high"])


@pytest.mark.parametrize("ratio", [False, True])
def test_a_contrast_against_a_loop_over_shared_resamples(ratio):
    (one,), (two,) = runs_of(1, shift=0.2), runs_of(1, seed=0)
    found = retrieval_contrast([one], [two], ratio=ratio, n_resamples=100, seed=4)
    drawn = []
    for weights in cluster_weights(one.author_sets, 100, 4):
        a, b = (np.repeat(run.values["R@20"], weights).mean() for run in (one, two))
        drawn.append(a / b if ratio else a - b)
    assert [found["low"], found["high"]] == pytest.approx(np.quantile(drawn, [0.025, 0.975]))
    a, b = one.values["R@20"].mean(), two.values["R@20"].mean()
    assert found["value"] == pytest.approx(a / b if ratio else a - b)


def test_several_runs_against_a_loop_over_resampled_authors_and_runs():
    ones, twos = runs_of(3, shift=0.2), runs_of(3, seed=0)
    authors = cluster_weights(ones[0].author_sets, 60, 5)
    seeds = np.random.default_rng([5, 1]).multinomial(3, np.full(3, 1 / 3), 60)

    def mean_of(runs, by_author, by_run):
        drawn = [np.repeat(run.values["R@20"], by_author) for run in np.repeat(runs, by_run)]
        return np.concatenate(drawn).mean()

    means = [[mean_of(runs, *each) for each in zip(authors, seeds, strict=True)] for runs in (ones, twos)]
    table = retrieval_table(ones, n_resamples=60, seed=5).set_index("metric").loc["R@20"]
    assert [table["low"], table["high"]] == pytest.approx(np.quantile(means[0], [0.025, 0.975]))
    assert table["value"] == pytest.approx(np.mean([run.values["R@20"] for run in ones]))
    found = retrieval_contrast(ones, twos, n_resamples=60, seed=5)
    want = np.quantile(np.subtract(*means), [0.025, 0.975])
    assert [found["low"], found["high"]] == pytest.approx(want)


def test_a_contrast_is_paired():
    one, two = runs_of(1, shift=0.2), runs_of(1)
    wide = [retrieval_table(runs).iloc[0] for runs in (one, two)]
    paired = retrieval_contrast(one, two)
    assert paired["high"] - paired["low"] < 0.1 * min(row["high"] - row["low"] for row in wide)


def test_a_ratio_to_nothing():
    (run,) = runs_of(1)
    nothing = PerQuery({name: 0 * each for name, each in run.values.items()}, run.queries, run.author_sets, 0)
    with pytest.raises(DegenerateError, match="R@20 is 0"):
        retrieval_contrast([run], [nothing], ratio=True)
    rarely = nothing.values["R@20"].copy()
    rarely[0] = 1.0  # resamples without this author have no ratio
    some = PerQuery({"R@20": rarely, "MRR": rarely}, run.queries, run.author_sets, 0)
    assert np.isfinite(list(retrieval_contrast([run], [some], ratio=True).values())).all()


def test_runs_of_other_queries_are_refused():
    (run,), (other,) = runs_of(1), runs_of(1)
    moved = PerQuery(run.values, run.queries + 1, run.author_sets, 0)
    fewer = PerQuery({"R@20": run.values["R@20"]}, run.queries, run.author_sets, 0)
    assert retrieval_contrast([run], [other])["n"] == 40
    for wrong in (moved, fewer):
        with pytest.raises(ParameterError, match="not of the same queries"):
            retrieval_contrast([run], [wrong])
        with pytest.raises(ParameterError, match="not of the same queries"):
            retrieval_table([run, wrong])
    with pytest.raises(ParameterError, match="metric='R@5'"):
        retrieval_contrast([run], [other], "R@5")
    with pytest.raises(TooFewError, match="runs: is empty"):
        retrieval_table([])


@pytest.mark.parametrize(("level", "n_resamples"), [(0.0, 100), (95.0, 100), (0.95, 1)])
def test_bad_resampling_is_named(level, n_resamples):
    with pytest.raises(ParameterError, match="level="):
        retrieval_table(runs_of(1), level=level, n_resamples=n_resamples)
