"""The parts of the README that are made of numbers, written between its markers from committed records.

`python -m readout.report.readme` writes them, and a test keeps the README in step with the records.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from readout.errors import ReadoutError
from readout.paths import root

STAGES = {
    "entropy_study": "layers/entropy_study",
    "train_scorers": "authorship/train_scorers",
    "probe": "authorship/probe",
    "patch": "authorship/patch",
    "dynamics": "authorship/dynamics",
    "generate": "tokens/generate",
    "align": "tokens/align",
}
WITHOUT_CLAIMS = {"generate"}
"""Stages that only make what others judge."""
STEPS = {
    "setup": "`make setup`, once: environment and assets",
    "tiny": "all stages of the profile `tiny`",
    **{stage: f"`make repro STAGE={stage}@laptop`" for stage in STAGES},
    "no-op": "`make repro` again",
}


def claims(project: Path) -> str:
    """What the laptop profile says about each claim, a table for each notebook."""
    parts = []
    for stage, notebook in STAGES.items():
        if stage in WITHOUT_CLAIMS:
            continue
        table = pd.read_csv(project / "figures" / "laptop" / stage / "claims.csv", keep_default_na=False)
        rows = [(r.statement, r.paper, r.here, r.unit, r.n, f"**{r.verdict}**") for r in table.itertuples()]
        shown = _markdown(["claim", "paper", "here", "unit", "n", "verdict"], rows)
        parts.append(f"[{notebook}](notebooks/{notebook}.ipynb)\n\n{shown}")
    return "\n\n".join(parts)


def cost(project: Path) -> str:
    """Time, memory and disk of each step, as measured in a fresh clone."""
    record = json.loads((project / "benchmarks" / "pipeline.json").read_text())
    rows = [
        (text, f"{record[s]['seconds']:.0f} s", f"{record[s]['peak_gb']:.1f} GB") for s, text in STEPS.items()
    ]
    disk = ", ".join(f"{gb:.1f} GB in `{folder}`" for folder, gb in record["disk_gb"].items())
    return _markdown(["step", "wall time", "peak memory"], rows) + f"\n\nDisk: {disk}."


PARTS: dict[str, Callable[[Path], str]] = {"claims": claims, "cost": cost}


def render(text: str, project: Path) -> str:
    """`text` with every part written anew between `<!-- NAME -->` and `<!-- /NAME -->`.

    Raises ReadoutError where a part has no place.
    """
    for name, part in PARTS.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not place.search(text):
            raise ReadoutError(f"README.md has no place <!-- {name} --> ... <!-- /{name} -->")
        made = part(project)
        text = place.sub(lambda m, made=made: f"{m[1]}{made}\n{m[2]}", text)
    return text


def _markdown(header: list[str], rows: list[tuple]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


if __name__ == "__main__":
    readme = root() / "README.md"
    readme.write_text(render(readme.read_text(), root()))
