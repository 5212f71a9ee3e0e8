"""How notebooks are read and results are put in place."""

import json
import os
from pathlib import Path
from typing import Any

from readout.errors import ParameterError


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook's JSON as it is on disk; `ParameterError` if there is none or it is no notebook."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path}: {error.strerror}; expected a notebook") from None
    except ValueError as error:
        raise ParameterError(f"{path}: is not JSON ({error}); expected a notebook") from None
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4 or "cells" not in notebook:
        raise ParameterError(f"{path}: is JSON, but not a notebook of format 4")
    return notebook


def source(cell: dict[str, Any]) -> str:
    """A cell's text, which the format stores as one string or as a list of lines."""
    return "".join(cell.get("source", ""))


def tags(cell: dict[str, Any]) -> list[str]:
    """A cell's tags, none if it carries no list of them."""
    return cell.get("metadata", {}).get("tags", [])


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that a kernel executes, in order; the first one becomes `In[1]`.

    >>> blank, code = {"cell_type": "code", "source": " "}, {"cell_type": "code", "source": ["a = 1"]}
    >>> [source(cell) for cell in code_cells({"cells": [blank, {"cell_type": "markdown"}, code]})]
    ['a = 1']
    """
    return [cell for cell in notebook["cells"] if cell.get("cell_type") == "code" and source(cell).strip()]


def replace_text(path: Path, text: str) -> None:
    """Put `text` at `path` at one stroke: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
