"""The schedule against the one that transformers gives out."""

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from readout.training.schedule import warm_up_cosine


@pytest.mark.parametrize(("n_steps", "warm_up"), [(10, 0.1), (57, 0.3), (20, 0.0), (1, 0.1)])
def test_falls_as_transformers_schedule_and_starts_one_step_into_its_rise(n_steps, warm_up):
    rising = round(warm_up * n_steps)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = get_cosine_schedule_with_warmup(optimizer, rising, n_steps)
    shares = []
    for _ in range(n_steps):
        shares.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    ours = [warm_up_cosine(step, n_steps, warm_up) for step in range(n_steps)]
    assert ours[rising:] == pytest.approx(shares[rising:])
    assert ours[: max(rising - 1, 0)] == pytest.approx(shares[1:rising])
    assert max(ours) == 1.0
    assert min(ours) > 0
