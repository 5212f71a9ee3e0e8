"""Spread work over the processor: one thread per core, each with single-threaded kernels."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Item = TypeVar("Item")
Result = TypeVar("Result")


# Below this many numbers an item is done before Python's lock has been handed over.
SMALL = 2**17


def spread(compute: Callable[[Item], Result], items: Iterable[Item], item_size: int) -> list[Result]:
    """`compute` of every item, in order; items of few numbers are done one after another.

    The linear algebra below torch splits one small eigensolve over all cores and is several times
    slower for it, so torch's own thread count is 1 while this runs, and is put back after.

    >>> spread(lambda n: 2 * n, range(3), item_size=1)
    [0, 2, 4]
    """
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if item_size < SMALL:
            return [compute(item) for item in items]
        # The count below torch is kept per thread, so each worker sets its own.
        with ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(compute, items))
    finally:
        torch.set_num_threads(n)


def over_texts(
    measure: Callable[[Tensor, Tensor], Result],
    states: Float[Tensor, "text token dim"],
    mask: Bool[Tensor, "text token"],
) -> list[Result]:
    """`measure(states, mask)` on consecutive slices of the texts, one result per slice, in order."""
    if states.device.type != "cpu" or not len(states):
        return [measure(states, mask)]
    n = torch.get_num_threads()
    parts = zip(states.chunk(n), mask.chunk(n), strict=True)
    return spread(lambda part: measure(*part), parts, item_size=states.numel() // n)
