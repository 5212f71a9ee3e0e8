"""Where the project is, whatever folder Python was started in.

Jupyter starts a kernel in the notebook's folder and the pipeline starts it at the top, so no path in the
project is relative to the working directory.
"""

from functools import cache
from pathlib import Path

from readout.errors import ParameterError


@cache
def root(*starts: Path) -> Path:
    """The project's top folder: the nearest one upwards with a `dvc.yaml`, from one of `starts`.

    By default from the working directory, else from the library. Raises ParameterError where there is none.
    """
    starts = tuple(start.resolve() for start in starts or (Path.cwd(), Path(__file__)))
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "dvc.yaml").is_file():
                return folder
    raise ParameterError(f"no dvc.yaml at or above {starts[0]}: start inside the project's folder")


def folders(profile: str, stage: str) -> tuple[Path, Path]:
    """Where a stage's tables and its figures go: `results/<profile>/<stage>`, `figures/<profile>/<stage>`."""
    return root() / "results" / profile / stage, root() / "figures" / profile / stage
