"""Executes a notebook in a kernel that imports this project's library and never outlives its runner."""

import logging
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from readout.errors import RunError
from readout.pipeline.files import code_cells, read_notebook, tags

_QUIET = ["--IPKernelApp.log_level=50", "--HistoryManager.enabled=False"]
# The kernel itself looks for its parent once a second, but cannot while a C loop holds the interpreter;
# on Linux the system ends it (PR_SET_PDEATHSIG is 1).
_DIE_WITH_RUNNER = f"--IPKernelApp.exec_lines=__import__('ctypes').CDLL(None).prctl(1, {int(signal.SIGKILL)})"


def environment(project: Path, inherited: Mapping[str, str], stderr: int = 2) -> dict[str, str]:
    """The variables a kernel needs to run this checkout's library the same way each time.

    `<project>/lib` comes first on the path, before an installation that points to another checkout. Progress
    bars go to the terminal behind the file descriptor `stderr`, or are off where that is no terminal.
    """
    bars = {"READOUT_PROGRESS": os.ttyname(stderr)} if os.isatty(stderr) else {"TQDM_DISABLE": "1"}
    path = [str(project / "lib"), *filter(None, [inherited.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "HF_HUB_OFFLINE": inherited.get("HF_HUB_OFFLINE", "1"),
        # The kernel of the running Python, not one of the same name in the user's folder.
        "JUPYTER_PREFER_ENV_PATH": "1",
        **bars,
    }


def execute(path: Path, given: Mapping[str, Any], project: Path) -> None:
    """Run the notebook at `path` in place, with the project's root as working folder.

    Raises `RunError` for a failing cell, an exit, a dead kernel, or a last cell that never ran;
    `KeyboardInterrupt` and `SystemExit` (on SIGTERM and SIGHUP) pass through once the kernel is stopped.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    for name in ("papermill", "asyncio", "traitlets"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with TemporaryDirectory(prefix="readout-") as profile:
        # An empty IPython folder: the user's start-up files are no part of the experiment.
        os.environ.update(environment(project, os.environ) | {"IPYTHONDIR": profile})
        _execute(path, given, project)
    _require_end(read_notebook(path))


def _execute(path: Path, given: Mapping[str, Any], project: Path) -> None:
    # Slow to import, and not needed to refuse a wrong parameter.
    import papermill
    from nbclient.exceptions import DeadKernelError

    place = re.sub(r"([{}])", r"\1\1", str(path))  # papermill formats paths as templates
    try:
        papermill.execute_notebook(
            place,
            place,
            parameters=dict(given),
            kernel_name="python3",
            language="python",
            cwd=str(project),
            progress_bar=sys.stderr.isatty(),
            record_timing=False,
            extra_arguments=[*_QUIET, *([_DIE_WITH_RUNNER] if sys.platform == "linux" else [])],
        )
    except papermill.PapermillExecutionError as error:
        reason = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
        raise RunError(f"failed in cell In[{error.exec_count}]: {reason}") from None
    except DeadKernelError:
        raise RunError(
            f"failed in cell {_last_started(path)}: the kernel died (killed or out of memory)"
        ) from None
    except RuntimeError as error:
        raise RunError(f"failed in cell {_last_started(path)}: {str(error).splitlines()[0]}") from None


def _last_started(path: Path) -> str:
    # The counts and states that papermill saves are wrong after a kernel died; its start times are right.
    cells = code_cells(read_notebook(path))
    started = [
        n for n, cell in enumerate(cells, 1) if cell["metadata"].get("papermill", {}).get("start_time")
    ]
    return f"In[{started[-1] if started else 1}]"


def _require_end(notebook: Mapping[str, Any]) -> None:
    cells = code_cells(dict(notebook))
    for n, cell in enumerate(cells, 1):
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                raise RunError(f"stopped in cell In[{n}]: {output['ename']}: {output['evalue']}")
        if cell["execution_count"] != n:
            raise RunError(f"stopped before cell In[{n}]")
    if not cells or "done" not in tags(cells[-1]):
        raise RunError("the cell tagged `done` is not the last one")
