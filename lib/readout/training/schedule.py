"""Learning rate against steps, as a share of its peak."""

import math


def warm_up_cosine(step: int, n_steps: int, warm_up: float = 0.1) -> float:
    """Rises in a line over the first `warm_up` of all steps, then falls as half a cosine; steps count from 0.

    The first step already learns: with w = round(warm_up n), the share is (step + 1) / w, then
    (1 + cos(pi (step - w) / (n - w))) / 2.

    >>> [round(warm_up_cosine(step, 10, 0.2), 3) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.038]
    """
    rising = round(warm_up * n_steps)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / (n_steps - rising))) / 2
