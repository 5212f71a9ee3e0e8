"""Progress bars that reach the person who waits, and no notebook's stored output.

What a kernel writes to stderr ends up in its notebook. The runner therefore names its own terminal in
`READOUT_PROGRESS`, or silences bars with `TQDM_DISABLE` where it has none; in JupyterLab a bar is a widget.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tqdm.auto import tqdm as in_place
from tqdm.std import tqdm

TERMINAL = "READOUT_PROGRESS"


@contextmanager
def progress_bar(total: int, *, what: str, unit: str, shown: bool = True) -> Iterator[tqdm]:
    """A bar of `total` steps with the time left; call its `update` with the steps done.

    >>> with progress_bar(3, what="texts", unit="text", shown=False) as bar:
    ...     _ = bar.update(3)
    >>> bar.disable
    True
    """
    # tqdm reads this variable at import only, and a kernel may set it later.
    options = {"total": total, "desc": what, "unit": unit, "leave": False}
    options["disable"] = not shown or bool(os.environ.get("TQDM_DISABLE"))
    with ExitStack() as stack:
        if terminal := os.environ.get(TERMINAL):
            # Below the runner's own bar over the cells.
            stream = stack.enter_context(open(terminal, "w"))
            yield stack.enter_context(tqdm(**options, file=stream, position=1))
        else:
            yield stack.enter_context(in_place(**options))
