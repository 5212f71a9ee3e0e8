import math

import pytest
import torch

from readout.errors import DegenerateError, NonFiniteError, ParameterError, TooFewError
from readout.lenses import center, infonce, mutual_information_bound, unit_rows


def views(n=12, d=5, noise=0.3):
    g = torch.Generator().manual_seed(0)
    a = torch.randn(n, d, generator=g)
    return unit_rows(a), unit_rows(a + noise * torch.randn(n, d, generator=g))


def test_two_texts_by_hand():
    a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    b = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    # logits [[1, 3], [2, 4]]: row losses log(e^1 + e^3) - 1 and log(e^2 + e^4) - 4
    want = (math.log(math.e + math.e**3) - 1 + math.log(math.e**2 + math.e**4) - 4) / 2
    assert float(infonce(a, b, temperature=1.0)) == pytest.approx(want, abs=1e-14)


def test_equals_the_cross_entropy_of_torch_and_is_one_direction():
    a, b = views()
    want = torch.nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(len(a)))
    torch.testing.assert_close(infonce(a, b), want)
    assert float(infonce(a, b)) != pytest.approx(float(infonce(b, a)), abs=1e-6)


def test_order_of_texts_and_rotation_change_nothing():
    a, b = views()
    order = torch.randperm(len(a), generator=torch.Generator().manual_seed(1))
    q, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))
    torch.testing.assert_close(infonce(a[order] @ q, b[order] @ q), infonce(a, b))


def test_features_that_tell_nothing_lose_log_n_and_cannot_be_centred():
    same = torch.ones(7, 3)
    assert float(infonce(same, same)) == pytest.approx(math.log(7))
    assert float(mutual_information_bound(same, same)) == pytest.approx(0.0, abs=1e-14)
    with pytest.raises(DegenerateError):
        unit_rows(center(same))


def test_the_bound_is_at_most_log_n():
    a, _ = views()
    assert math.log(12) - 0.1 < float(mutual_information_bound(a, a, temperature=0.01)) <= math.log(12)


def test_large_logits_do_not_overflow():
    a = torch.eye(3) * 1e4
    assert float(infonce(a, a)) == 0.0


def test_bad_input_is_named():
    a = torch.eye(3)
    with pytest.raises(TooFewError, match="a has 1 text"):
        infonce(a[:1], a[:1])
    with pytest.raises(ParameterError, match="temperature=0"):
        infonce(a, a, temperature=0.0)
    with pytest.raises(NonFiniteError, match="b holds"):
        infonce(a, a * math.nan)
    with pytest.raises(ParameterError, match="one shape"):
        infonce.__wrapped__(a, a[:2])
