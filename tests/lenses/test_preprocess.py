import pytest
import torch

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import center, unit_rows
from readout.lenses.preprocess import as_batch_of_one, as_padded, as_states


def test_center_ignores_padding_and_what_stands_there():
    z = torch.tensor([[1.0, 2.0], [3.0, 6.0], [float("nan"), 9.0]])
    mask = torch.tensor([True, True, False])
    assert center(z, mask).tolist() == [[-1.0, -2.0], [1.0, 2.0], [0.0, 0.0]]


def test_center_of_identical_rows_is_zero_to_the_last_bit():
    z = torch.full((7, 3), 0.1, dtype=torch.float64)
    assert (center(z) == 0).all()


def test_center_keeps_the_smallest_difference_of_float32():
    z = torch.ones(4, 400)
    z[0, 0] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert (center(z).norm(dim=1) > 0).all()


def test_unit_rows_has_length_one_and_refuses_a_zero_row():
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(unit_rows(z).norm(dim=1), torch.ones(5, dtype=torch.float64))
    z[2] = 0
    with pytest.raises(DegenerateError, match="z has 1 rows of length 0"):
        unit_rows(z)
    mask = torch.arange(5) != 2
    assert unit_rows(z, mask)[2].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_states_are_named(bad):
    with pytest.raises(NonFiniteError, match="z holds NaN or infinite"):
        center(torch.tensor([[1.0], [bad]]))


def test_wrong_axes_and_whole_numbers_are_refused():
    with pytest.raises(ParameterError, match=r"z is torch.float32 of shape \(3,\)"):
        as_states("z", torch.ones(3), ndim=2)
    with pytest.raises(ParameterError, match=r"z is torch.int64"):
        as_states("z", torch.ones(3, 3, dtype=torch.int64), ndim=2)


def test_no_token_is_refused():
    with pytest.raises(TooFewError, match="at least one row"):
        center(torch.ones(0, 3))
    with pytest.raises(TooFewError, match="at least one token"):
        as_batch_of_one(torch.ones(0, 3))
    with pytest.raises(TooFewError, match="at least one token"):
        as_padded(torch.ones(2, 0, 3), torch.ones(2, 0, dtype=torch.bool))


def test_a_tensor_in_16_bit_or_with_a_gradient_is_fine():
    z = torch.randn(4, 3, requires_grad=True)
    assert not center(z).requires_grad
    assert center(z.bfloat16()).dtype == torch.float64
