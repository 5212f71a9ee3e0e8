"""The published twins equal naive forms written from the protocol notes, and differ where the notes say so."""

import math

import numpy as np
import pytest
import torch

from readout.errors import DegenerateError, ParameterError, TooFewError
from readout.lenses import (
    Absent,
    center,
    curvature_rad,
    dataset_entropy,
    dime,
    lidar,
    matrix_entropy,
    prompt_entropy,
    unit_rows,
)
from readout.lenses.published import (
    curvature_rad_as_published,
    curvature_rad_as_published_per_text,
    dataset_entropy_as_published,
    dime_as_published,
    frobenius_entropy_as_published,
    infonce_as_published,
    lidar_as_published,
    prompt_entropy_as_published,
    prompt_entropy_as_published_per_text,
    unit_rows_in_batches,
)

from . import lens_oracles as oracle
from .padded import pad, texts


def states(n, dim, seed=0):
    return texts(seed, [n], dim)[0].double()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("n", "dim"), [(5, 12), (12, 5), (5, 5), (2, 5)])
def test_clamped_prompt_entropy(n, dim, alpha):
    z = states(n, dim)
    want = oracle.clamped_entropy(oracle.normalize(z.numpy()), alpha)
    assert float(prompt_entropy_as_published(z, alpha)) == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_texts_longer_than_wide_change_nothing(side):
    items = texts(0, [4, 9, 3, 7], dim=5)
    want = [oracle.clamped_entropy(oracle.normalize(z.double().numpy())) for z in items]
    assert list(prompt_entropy_as_published_per_text(*pad(items, side, 11))) == pytest.approx(want, abs=1e-10)
    want = [oracle.curvature(oracle.normalize(z.double().numpy()), fold=True) for z in items]
    assert list(curvature_rad_as_published_per_text(*pad(items, side, 11))) == pytest.approx(want, abs=1e-10)


def test_clamping_entries_raises_the_entropy():
    spectrum = 1.0 / torch.arange(1, 769, dtype=torch.float64)
    z = states(200, 768) * spectrum.sqrt()
    assert float(prompt_entropy_as_published(z)) > float(prompt_entropy(z)) + 0.05


def test_the_shortcut_is_right_for_unit_rows_only():
    u = torch.nn.functional.normalize(states(40, 16))
    gram = u @ u.T
    assert float(frobenius_entropy_as_published(gram)) == pytest.approx(float(matrix_entropy(u, alpha=2.0)))
    assert float(frobenius_entropy_as_published(u.T @ u)) < float(matrix_entropy(u, alpha=2.0)) - 1


def test_folding_turns_120_degrees_into_60():
    z = states(300, 2000)
    assert math.degrees(float(curvature_rad(z))) == pytest.approx(120, abs=0.5)
    assert math.degrees(float(curvature_rad_as_published(z))) == pytest.approx(60, abs=0.5)


def test_zero_steps_and_short_texts_count_as_no_curvature():
    corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [2.0, 3.0]])
    want = oracle.curvature(oracle.normalize(corner.double().numpy()), fold=True)
    assert float(curvature_rad_as_published(corner)) == pytest.approx(want, abs=1e-12)
    assert float(curvature_rad_as_published(corner[:1])) == 0.0
    assert float(curvature_rad_as_published(corner[:2])) == 0.0


def test_what_is_nan_in_the_code_is_absent_or_an_error_here():
    assert isinstance(prompt_entropy_as_published(torch.ones(1, 3)), Absent)
    for measure in (prompt_entropy_as_published, curvature_rad_as_published):
        with pytest.raises(DegenerateError, match="identical"):
            measure(torch.ones(4, 3))


def test_two_texts_a_batch_lose_everything_but_a_direction():
    x = states(6, 4)
    u = unit_rows_in_batches(x, 2)
    np.testing.assert_allclose(u.numpy(), oracle.in_batches(x.numpy(), 2), atol=1e-14)
    torch.testing.assert_close(u[::2], -u[1::2])


@pytest.mark.parametrize(("n", "dim"), [(9, 20), (20, 6)])
@pytest.mark.parametrize("size", [2, 4, 20])
def test_dataset_entropy_depends_on_the_batch_size(n, dim, size):
    x = states(n - n % 2, dim)
    want = oracle.clamped_entropy(oracle.in_batches(x.numpy(), size))
    assert float(dataset_entropy_as_published(x, size)) == pytest.approx(want, abs=1e-10)
    assert float(dataset_entropy(x)) != pytest.approx(want, abs=1e-3)


def test_infonce_and_lidar():
    views = states(8, 5, seed=1)[:, None] + 0.3 * states(24, 5, seed=2).view(8, 3, 5)
    a, b = (torch.from_numpy(oracle.in_batches(views[:, j].numpy(), 4)) for j in (0, 1))
    want = torch.nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(8))
    torch.testing.assert_close(infonce_as_published(views[:, 0], views[:, 1], 4), want)
    units = np.stack([oracle.in_batches(views[:, j].numpy(), 4) for j in range(3)], axis=1)
    want = oracle.lidar(units, 1e-4, dtype=np.float32) / math.log(5)
    assert float(lidar_as_published(views, 4)) == pytest.approx(want, abs=1e-4)
    assert float(lidar(torch.from_numpy(units))) / math.log(5) == pytest.approx(want, abs=1e-3)


@pytest.mark.parametrize(("n", "dim"), [(6, 9), (12, 4)])
def test_dime_takes_covariances_when_texts_outnumber_features(n, dim):
    a, b = states(n, dim, 1), states(n, dim, 2)
    ua, ub = (oracle.in_batches(x.numpy(), n) for x in (a, b))
    ka, kb = (u.T @ u if n > dim else u @ u.T for u in (ua, ub))
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(kb), generator=generator).numpy() for _ in range(4)]
    joint = [oracle.renyi(oracle.eigen_shares(ka * kb[np.ix_(o, o)]), 1) for o in orders]
    want = np.mean(joint) - oracle.renyi(oracle.eigen_shares(ka * kb), 1)
    got = dime_as_published(a, b, generator=torch.Generator().manual_seed(0), batch_size=n, n_permutations=4)
    assert float(got) == pytest.approx(want, abs=1e-9)


def test_bad_batches_are_named():
    x = states(5, 4)
    with pytest.raises(TooFewError, match="x has 5 texts; batches of 2"):
        dataset_entropy_as_published(x)
    with pytest.raises(ParameterError, match="batch_size=1"):
        unit_rows_in_batches(x, 1)
    with pytest.raises(TooFewError, match="x has 1 texts"):
        dataset_entropy_as_published(x[:1])
    with pytest.raises(DegenerateError):
        infonce_as_published(torch.ones(4, 3), torch.ones(4, 3))


def test_batches_of_two_make_independent_views_look_aligned():
    """Rows come out as ±u, so matched Gram matrices share their pairs and shuffled ones do not: log 2 of DiME."""
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(60, 400, generator=draw), torch.randn(60, 400, generator=draw)
    corrected = dime(unit_rows(center(a)), unit_rows(center(b)), generator=draw)
    published = dime_as_published(a, b, generator=draw, batch_size=2)
    assert abs(corrected) < 0.01
    assert published == pytest.approx(math.log(2), abs=0.05)
