"""Alignment and uniformity against hand numbers, loops over pairs, and the invariances of the sphere."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses.geometry import alignment, uniformity


def normal(seed, n, dim):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    square = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])  # 4 pairs at 2, 2 pairs at 4
    assert float(uniformity(square)) == pytest.approx(math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6))
    assert float(alignment(square, square)) == 0
    assert float(alignment(square, -square)) == 4
    assert float(alignment(square, square.roll(1, 0))) == 2


def test_against_loops_over_pairs():
    x, y = normal(0, 9, 5), normal(1, 9, 5)
    unit = [[row / row.norm() for row in each] for each in (x, y)]
    apart = [float((a - b).norm() ** 2) for a, b in zip(*unit, strict=True)]
    assert float(alignment(x, y)) == pytest.approx(sum(apart) / 9)
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    potential = [math.exp(-2 * float((unit[0][i] - unit[0][j]).norm() ** 2)) for i, j in pairs]
    assert float(uniformity(x)) == pytest.approx(math.log(sum(potential) / len(pairs)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_scale_rotation_and_order_change_nothing(seed):
    x, y = normal(seed, 6, 4), normal(seed + 1, 6, 4)
    rotation = torch.linalg.qr(normal(seed + 2, 4, 4)).Q
    scales, order = (
        0.5 + normal(seed + 3, 6, 1).abs(),
        torch.randperm(6, generator=torch.Generator().manual_seed(seed)),
    )
    moved = [((scales * each) @ rotation)[order] for each in (x, y)]
    torch.testing.assert_close(alignment(*moved), alignment(x, y))
    torch.testing.assert_close(uniformity(moved[0]), uniformity(x))


def test_range_and_what_random_directions_give():
    assert float(uniformity(torch.ones(5, 3))) == pytest.approx(0, abs=1e-12)
    assert float(uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))) == pytest.approx(-8)
    assert float(uniformity(normal(0, 200, 512))) == pytest.approx(-4, abs=0.05)
    assert float(alignment(normal(0, 200, 512), normal(1, 200, 512))) == pytest.approx(2, abs=0.05)
    assert uniformity(torch.eye(3)).dtype == alignment(torch.eye(3), torch.eye(3)).dtype == torch.float64


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match=r"x is \(2, 3\) and y is \(3, 3\)"):
        alignment(torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(TooFewError, match="x has 1 vectors"):
        uniformity(torch.ones(1, 3))
    with pytest.raises(TooFewError):
        alignment(torch.ones(0, 3), torch.ones(0, 3))
    with pytest.raises(DegenerateError):
        uniformity(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(NonFiniteError):
        alignment(torch.tensor([[math.nan, 1.0]]), torch.ones(1, 2))
