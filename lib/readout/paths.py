"""Where the project is, whatever folder Python was started in.

Jupyter starts a kernel in the notebook's folder and the pipeline starts it at the top, so no path in the
project is relative to the working directory.
"""

from functools import cache
from pathlib import Path

from readout.errors import ReadoutError


@cache
def root() -> Path:
    """The project's top folder: the nearest one upwards, from here or from the library, with a `dvc.yaml`.

    Raises ReadoutError where there is none.
    """
    for start in (Path.cwd(), Path(__file__).resolve()):
        for folder in (start, *start.parents):
            if (folder / "dvc.yaml").exists():
                return folder
    raise ReadoutError(f"no dvc.yaml at or above {Path.cwd()}: start inside the project's folder")


def folders(profile: str, stage: str) -> tuple[Path, Path]:
    """Where a stage's tables and its figures go: `results/<profile>/<stage>`, `figures/<profile>/<stage>`."""
    return root() / "results" / profile / stage, root() / "figures" / profile / stage
