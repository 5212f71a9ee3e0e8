"""How every figure looks, and how it is saved beside the data it was drawn from.

A figure is a pure function of one tidy table. `save` writes the table as CSV next to SVG, PDF and PNG, and
`python -m readout.report.figures FILE.csv ...` draws the same figure again from that CSV alone, on a computer
without models, data or GPU.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from pkgutil import iter_modules

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from readout.errors import ReadoutError
from readout.report.tables import single_provenance

WIDTH = 7.0  # inches: two columns of a paper
PALETTE = sns.color_palette("colorblind").as_hex()

STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 130,
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: searchable, and read out by a screen reader
    "svg.hashsalt": "readout",  # the same figure has the same bytes
    "pdf.fonttype": 42,
}


@contextmanager
def style():
    """The style of all figures, for the time of a `with` block."""
    with mpl.rc_context({**sns.axes_style("whitegrid"), **STYLE}):
        yield


def depth_axis(ax: Axes, n_layers: int, *, labels: bool = True) -> None:
    """Relative depth on the x-axis, the index of the layer in the ticks: `15` above `0.5` for block 15 of 30."""
    step = max(1, round(n_layers / 6))
    ticks = sorted({*range(0, n_layers - step // 2, step), n_layers})
    ax.set_xticks(
        [t / n_layers for t in ticks], [f"{t}\n{t / n_layers:.2g}" for t in ticks] if labels else []
    )
    ax.set_xlim(-0.02, 1.02)


def band(ax: Axes, rows: pd.DataFrame, **line) -> None:
    """One curve over depth with its confidence band."""
    rows = rows.sort_values("depth")
    ax.plot(rows["depth"], rows["value"], **line)
    ax.fill_between(rows["depth"], rows["low"], rows["high"], color=line["color"], alpha=0.18, linewidth=0)


def caption(figure: Figure, text: str) -> None:
    """What a reader must know to judge the figure: n, seeds, interval. Stands below the axes."""
    figure.supxlabel(text, fontsize=7, x=0.01, ha="left", color="0.25")


@dataclass(frozen=True)
class Drawn:
    """A saved figure; a notebook shows the very bytes of its PNG file."""

    csv: Path

    def _repr_png_(self) -> bytes:
        return self.csv.with_suffix(".png").read_bytes()


def save(draw: Callable[[pd.DataFrame], Figure], table: pd.DataFrame, folder: Path, name: str) -> Drawn:
    """Draw `table` and write `folder/name` as .csv, .svg, .pdf and .png.

    `name` is the kind of figure, and what tells two of a kind apart after `--`. Raises ReadoutError when the
    rows come from different runs, or when no figure of this kind can be redrawn.
    """
    single_provenance(table)
    kind = name.split("--")[0]
    if kind not in drawings():
        raise ReadoutError(f"figure name {name!r}: {kind!r} is none of {', '.join(drawings())}")
    with style():
        figure = draw(table)
        # The layout is solved once, not again for every file.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        folder.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        # Without dates the same figure has the same bytes in every run.
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
        _small_png(figure, folder / f"{name}.png")
        plt.close(figure)
    return Drawn(folder / f"{name}.csv")


def _small_png(figure: Figure, path: Path) -> None:
    """A PNG of 256 colours, a third of the size: line figures have few, and notebooks carry them."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def drawings() -> dict[str, Callable[[pd.DataFrame], Figure]]:
    """Every kind of figure by its stable name: the `DRAWINGS` of the modules `..._figures` beside this one.

    They are found by looking, not imported by name, so that a stage depends on the code of its own figures alone.
    """
    found: dict[str, Callable[[pd.DataFrame], Figure]] = {}
    for module in iter_modules([str(Path(__file__).parent)]):
        if module.name.endswith("_figures"):
            found |= import_module(f"readout.report.{module.name}").DRAWINGS
    return found


def redraw(files: list[Path]) -> None:
    """Draw figures again from the CSV files beside them."""
    for file in files:
        kind = file.stem.split("--")[0]
        if file.suffix != ".csv" or not file.exists() or kind not in drawings():
            raise typer.BadParameter(f"{file}: not the CSV of a figure; kinds are {', '.join(drawings())}")
        save(drawings()[kind], pd.read_csv(file), file.parent, file.stem)
        typer.echo(f"drawn {file.with_suffix('.svg')}")


if __name__ == "__main__":
    typer.run(redraw)
