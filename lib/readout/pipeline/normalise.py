"""One form for an executed notebook, so that two runs of the same code give the same bytes.

What goes: times, process numbers, memory addresses, machine paths, the Python release, redrawn progress
lines, widget state, and the order in which stdout and stderr happened to arrive. What stays: code,
parameters, numbers, figures.
"""

import copy
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

import nbformat
import typer
from nbformat import NotebookNode

INJECTED = "injected-parameters"
_KERNEL_FILE = re.compile(r"[^\s\"'<>]*/ipykernel_\d+/")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def local_names(root: Path) -> dict[str, str]:
    """What each machine path is called in a normalised notebook: project, environment, home."""
    return {str(root): ".", sys.prefix: "$PREFIX", str(Path.home()): "~"}


def normalise(notebook: NotebookNode, names: Mapping[str, str]) -> NotebookNode:
    """A copy of the notebook without what differs between two runs of it.

    `names` maps machine paths to what stands for them in text outputs, as `local_names` gives it.
    Doing it twice changes nothing. The result is of format 4.5, in which each cell has an id.
    """
    notebook = copy.deepcopy(notebook)
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    _clean_metadata(notebook.metadata)
    _name_cells(notebook.cells)
    for cell in notebook.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if cell.metadata.get("tags") == []:
            del cell.metadata["tags"]
        if cell.cell_type == "code":
            cell.outputs = [_clean_output(output, names) for output in _merged(cell.outputs)]
            cell.outputs = [output for output in cell.outputs if output.get("text") != ""]
    return notebook


def as_text(notebook: NotebookNode) -> str:
    """The notebook's JSON, keys sorted, ending in one newline."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def _clean_metadata(metadata: NotebookNode) -> None:
    metadata.pop("widgets", None)
    if "language_info" in metadata:
        metadata.language_info.pop("version", None)
    parameters = metadata.pop("papermill", {}).get("parameters")
    if parameters:
        metadata.papermill = {"parameters": parameters}


def _name_cells(cells: list[NotebookNode]) -> None:
    taken: set[str] = set()
    for position, cell in enumerate(cells):
        if INJECTED in cell.metadata.get("tags", []):
            cell.id = INJECTED
        if cell.get("id") is None or cell.id in taken:
            cell.id = f"cell-{position}"
        taken.add(cell.id)


def _merged(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    merged = []
    for is_stream, run in groupby(outputs, lambda output: output.output_type == "stream"):
        group = list(run)
        merged += _by_name(group) if is_stream else group
    return merged


def _by_name(streams: list[NotebookNode]) -> list[NotebookNode]:
    # The two streams arrive over one socket in no fixed order, so stdout goes first.
    texts = {name: "".join(s.text for s in streams if s.name == name) for name in ("stdout", "stderr")}
    return [nbformat.v4.new_output("stream", name=name, text=text) for name, text in texts.items() if text]


def _clean_output(output: NotebookNode, names: Mapping[str, str]) -> NotebookNode:
    if output.output_type == "stream":
        text = _without_progress(output.text) if output.name == "stderr" else output.text
        output.text = _clean_text(text, names)
    elif output.output_type == "error":
        output.evalue = _clean_text(output.evalue, names)
        output.traceback = [_clean_text(line, names) for line in output.traceback]
    else:
        output.data.pop(_WIDGET_VIEW, None)
        for kind in [kind for kind in output.data if kind.startswith("text/")]:
            output.data[kind] = _clean_text(output.data[kind], names)
    return output


def _without_progress(text: str) -> str:
    # A line that was redrawn with carriage returns is a progress bar: it shows time, not results.
    return "".join(line for line in re.findall(r"[^\n]*\n|[^\n]+", text) if "\r" not in line.rstrip("\r\n"))


def _clean_text(text: str, names: Mapping[str, str]) -> str:
    text = _ADDRESS.sub("at 0x0", _KERNEL_FILE.sub("ipykernel/", text))
    for path in sorted(set(names) - {"/"}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.~-]){re.escape(path)}(?![\w-])", lambda _: names[path], text)  # noqa: B023
    return text


def check(notebooks: list[Path]) -> None:
    """Name every notebook that normalising would change, and end with status 1 if there is one."""
    names = local_names(Path.cwd())
    changed = [
        path
        for path in notebooks
        if as_text(normalise(nbformat.read(path, as_version=4), names)) != path.read_text()
    ]
    for path in changed:
        typer.echo(f"{path}: outputs are not normalised; run `make refresh-notebooks`", err=True)
    raise typer.Exit(bool(changed))


if __name__ == "__main__":
    typer.run(check)
