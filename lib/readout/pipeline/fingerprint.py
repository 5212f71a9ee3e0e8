"""What a notebook computes, as hashes: one for each code cell, one for each library module it reaches.

A stage depends on this file instead of on the notebook, so re-saving a notebook or editing a comment runs
nothing, and changing code that the notebook reaches does. Comments, layout, docstrings, markdown and
outputs do not count; the parameters cell does. Imports are followed where they stand in the code, inside
functions too; a module that is imported by a computed name is not seen.

    python -m readout.pipeline.fingerprint NOTEBOOK -o OUT.json
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any

import typer

from readout.errors import ParameterError, ReadoutError
from readout.paths import root
from readout.pipeline.files import code_cells, read_notebook, replace_text, source

PACKAGE = "readout"
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def fingerprint(notebook: Path) -> dict[str, Any]:
    """`{"cells": [hash, ...], "modules": {name: hash}}` of a notebook inside the project.

    A hash is the first 16 hex digits of the SHA-256 of the syntax tree, the same on every Python version.
    Raises `ParameterError` for a magic, a `!` line, a syntax error, or an import of a missing module.
    """
    library = root(notebook) / "lib"
    cells = code_cells(read_notebook(notebook))
    trees = [_parse(source(cell), f"{notebook}, In[{n}]") for n, cell in enumerate(cells, 1)]
    return {
        "cells": [_digest(tree) for tree in trees if tree.body],
        "modules": _module_hashes(trees, library),
    }


def module_fingerprint(names: Iterable[str], library: Path) -> dict[str, str]:
    """`{name: hash}` of library modules and of all that they reach."""
    return _module_hashes([_parse(f"import {name}", name) for name in names], library)


def as_text(value: dict[str, Any]) -> str:
    """The fingerprint's one way of being written."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One phrase for each code cell or module that is not the same.

    >>> was = {"cells": ["a", "b"], "modules": {"readout.errors": "c", "readout.old": "d"}}
    >>> now = {"cells": ["a", "x", "y"], "modules": {"readout.errors": "e"}}
    >>> differences(was, now)
    ['code cell 2 changed', 'code cell 3 added', 'module readout.errors changed', 'module readout.old no longer used']
    """
    return _cell_differences(old["cells"], new["cells"]) + _module_differences(old["modules"], new["modules"])


def _cell_differences(old: list[str], new: list[str]) -> list[str]:
    found = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[i:i_end] == new[j:j_end]:
            continue
        both = min(i_end - i, j_end - j)
        found += [f"code cell {n + 1} changed" for n in range(j, j + both)]
        found += [f"code cell {n + 1} added" for n in range(j + both, j_end)]
        found += [f"former code cell {n + 1} removed" for n in range(i + both, i_end)]
    return found


def _module_differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    found = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            found.append(f"module {name} no longer used")
        elif name not in old:
            found.append(f"module {name} newly used")
        elif old[name] != new[name]:
            found.append(f"module {name} changed")
    return found


def _parse(code: str, where: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        line = code.splitlines()[(error.lineno or 1) - 1].strip()
        if line.startswith(("%", "!")) or "= %" in line or "= !" in line:
            raise ParameterError(
                f"{where}: {line!r}: magics and ! lines are refused; expected Python"
            ) from None
        raise ParameterError(f"{where}, line {error.lineno}: {error.msg}: {line!r}") from None
    except ValueError as error:
        raise ParameterError(f"{where}: {error}") from None


def _module_hashes(trees: list[ast.Module], library: Path) -> dict[str, str]:
    modules = _reachable(trees, library)
    return {name: _digest(_without_docstring(modules[name])) for name in sorted(modules)}


def _reachable(trees: list[ast.Module], library: Path) -> dict[str, ast.Module]:
    modules: dict[str, ast.Module] = {}
    waiting = [name for tree in trees for name in _imports(tree, "", library)]
    while waiting:
        name = waiting.pop()
        if name in modules:
            continue
        file = _file(name, library)
        if file is None:
            raise ParameterError(f"import of {name}: no such module in {library / PACKAGE}")
        modules[name] = _parse(file.read_text(encoding="utf-8"), str(file))
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        waiting += _imports(modules[name], package, library)
    return modules


def _imports(tree: ast.Module, package: str, library: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            inner = [f"{base}.{alias.name}" for alias in node.names]
            names = [base, *(name for name in inner if _file(name, library))]
        else:
            continue
        for name in names:
            yield from _with_parents(name)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    kept = parents[: len(parents) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _with_parents(name: str) -> list[str]:
    # Importing a.b.c runs a/__init__.py and a/b/__init__.py too.
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)] if parts[0] == PACKAGE else []


def _file(name: str, library: Path) -> Path | None:
    path = library.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _digest(tree: ast.Module) -> str:
    text = json.dumps(_canonical(tree), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(node: Any) -> Any:
    # Not ast.dump: Python releases add fields, which are empty in older code, and change what it prints.
    if isinstance(node, list):
        return [_canonical(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, _DOCUMENTED):
        node = _without_docstring(node)
    if isinstance(node, ast.JoinedStr):
        # Python 3.12.1 ends some f-strings with an empty constant, other releases do not.
        node = ast.JoinedStr([v for v in node.values if not (isinstance(v, ast.Constant) and v.value == "")])
    fields = {name: value for name, value in ast.iter_fields(node) if value is not None and value != []}
    return [type(node).__name__, {name: _canonical(value) for name, value in fields.items()}]


def _without_docstring(node: Any) -> Any:
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return type(node)(**{**dict(ast.iter_fields(node)), "body": rest})
    return node


def main(notebook: Path, output: Annotated[Path, typer.Option("-o", "--output", help="JSON file")]) -> None:
    """Write the fingerprint of NOTEBOOK's code, and touch the file only if its content changes."""
    try:
        text = as_text(fingerprint(notebook))
    except ReadoutError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    if not output.is_file() or output.read_text(encoding="utf-8") != text:
        replace_text(output, text)


if __name__ == "__main__":
    typer.run(main)
