import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readout.errors import NonFiniteError, ParameterError, TooFewError
from readout.lenses import Absent, curvature_rad, curvature_rad_per_text, undefined_angles_per_text

from . import lens_oracles as oracle
from .padded import pad, texts


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(3, 9), min_size=1, max_size=5),
    st.sampled_from(["left", "right"]),
)
def test_a_padded_batch_equals_a_loop_over_angles(seed, lengths, side):
    items = texts(seed, lengths)
    want = [oracle.curvature(z.double().numpy()) for z in items]
    assert list(curvature_rad_per_text(*pad(items, side, length=10))) == pytest.approx(want, abs=1e-12)
    assert all(0 <= value <= math.pi for value in want)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_shift_scale_rotation_and_reading_backwards_change_nothing(seed, scale):
    z = texts(seed, [6])[0].double()
    q, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    assert float(curvature_rad(scale * (z @ q).flip(0) + 2)) == pytest.approx(
        float(curvature_rad(z)), abs=1e-9
    )


def test_known_paths():
    line = torch.arange(6.0)[:, None] * torch.tensor([[0.3, -0.1, 0.7]])
    assert float(curvature_rad(line)) == pytest.approx(0.0, abs=1e-3)
    there_and_back = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).repeat(3, 1)
    assert float(curvature_rad(there_and_back)) == pytest.approx(math.pi)
    unordered = texts(0, [400], dim=2000)[0]
    assert float(curvature_rad(unordered)) == pytest.approx(2 * math.pi / 3, abs=0.01)


def test_a_cosine_rounded_above_one_gives_no_nan():
    steps = torch.full((200, 7), 1 / 3, dtype=torch.float64).cumsum(0)
    assert 0 <= float(curvature_rad(steps)) < 1e-6


def test_a_step_of_length_zero_is_left_out_and_counted():
    z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [2.0, 2.0]])
    mask = torch.ones(1, 6, dtype=torch.bool)
    assert float(curvature_rad(z)) == pytest.approx(math.pi / 2)  # the first and the last corner
    assert undefined_angles_per_text(z[None], mask).tolist() == [2]


def test_texts_without_an_angle_say_why():
    for n in (1, 2):
        assert "fewer than three" in curvature_rad(torch.eye(4)[:n]).reason
    assert curvature_rad(torch.ones(5, 3)) == Absent("every angle touches a step of zero length")
    with pytest.raises(TooFewError):
        curvature_rad(torch.ones(0, 3))
    with pytest.raises(NonFiniteError):
        curvature_rad(torch.full((5, 3), torch.inf))


def test_padding_between_tokens_is_refused():
    mask = torch.tensor([[True, True, True, True], [True, False, True, True]])
    with pytest.raises(ParameterError, match="mask of text 1 has padding between"):
        curvature_rad_per_text(torch.ones(2, 4, 3), mask)
