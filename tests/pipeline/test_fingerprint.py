import json
import subprocess
import sys
from modulefinder import ModuleFinder

import nbformat
import pytest

from readout.errors import ParameterError
from readout.pipeline.fingerprint import differences, fingerprint

LIBRARY = {
    "__init__.py": "",
    "errors.py": "class E(Exception):\n    pass",
    "lenses/__init__.py": "from .entropy import entropy",
    "lenses/entropy.py": "from readout.errors import E\ndef entropy(x):\n    return x",
    "lenses/lazy.py": "def f():\n    from ..report import tables as t\n    return t",
    "report/__init__.py": "",
    "report/tables.py": "import readout.errors as e",
    "report/unused.py": "a = 1",
}
CELLS = (
    "from readout.lenses import lazy\nimport numpy.linalg",
    "def f(x):\n    return lazy.f()\nprint(f(2))",
)


@pytest.fixture
def toy(project):
    for name, code in LIBRARY.items():
        project.write(f"lib/readout/{name}", code)
    return project.notebook("toy", *CELLS)


def rewrite(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def test_the_modules_are_those_that_the_standard_library_finds(project, toy):
    script = project.write("script.py", "\n".join(CELLS))
    finder = ModuleFinder(path=[str(project.path / "lib")])
    finder.run_script(str(script))
    expected = {name for name in finder.modules if name.partition(".")[0] == "readout"}
    assert set(fingerprint(toy)["modules"]) == expected
    assert "readout.report.unused" not in expected
    assert {"readout.report.tables", "readout.lenses.entropy", "readout.errors"} < expected


def test_comments_layout_docstrings_markdown_and_outputs_do_not_count(project, toy):
    before = fingerprint(toy)
    notebook = nbformat.read(toy, as_version=4)
    notebook.cells[
        3
    ].source = '# why\ndef f( x ):\n    """Doc."""\n    return lazy.f()  # now\n\nprint(f(2));'
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", text="2")]
    notebook.cells[3].execution_count = 7
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell("text"))
    notebook.cells.insert(1, nbformat.v4.new_code_cell("# a cell of comments"))
    nbformat.write(notebook, toy)
    project.write(
        "lib/readout/errors.py", '"""Module."""\nclass E( Exception ):\n    """Class."""\n    pass  # yes\n'
    )
    assert fingerprint(toy) == before


def test_a_change_of_code_names_the_cell_or_the_module(project, toy):
    before = fingerprint(toy)
    rewrite(toy, "f(2)", "f(3)")
    assert differences(before, fingerprint(toy)) == ["code cell 4 changed"]
    rewrite(toy, "f(3)", "f(2)")
    project.write("lib/readout/errors.py", "class E(ValueError):\n    pass")
    project.write("lib/readout/report/unused.py", "a = 2")
    assert differences(before, fingerprint(toy)) == ["module readout.errors changed"]


def test_the_default_of_a_parameter_is_code(toy):
    before = fingerprint(toy)
    rewrite(toy, "n: int = 2", "n: int = 3")
    assert differences(before, fingerprint(toy)) == ["code cell 1 changed"]


def test_an_added_and_a_removed_cell_are_told_from_a_changed_one():
    was = {"cells": ["a", "b", "c"], "modules": {}}
    assert differences(was, was | {"cells": ["a", "x", "b", "c"]}) == ["code cell 2 added"]
    assert differences(was, was | {"cells": ["a", "c"]}) == ["former code cell 2 removed"]


def test_a_hash_is_pinned_because_committed_results_depend_on_it(project):
    # The same on Python 3.11, 3.12 and 3.13.
    cell = 'class A:\n    def f(self, *a, k=None, **b) -> int:\n        return f"{k!r:>{a}}" if {**b} else lambda: -1'
    assert fingerprint(project.notebook("toy", cell))["cells"][2] == "faaa56eeb5c59e2d"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("a = 1\n%matplotlib inline", r"In\[3\]: '%matplotlib inline': magics"),
        ("!ls", "'!ls': magics and ! lines are refused"),
        ("files = !ls", "magics and ! lines are refused"),
        ("%%time\nf()", "magics and ! lines are refused"),
        ("def f(:", r"In\[3\], line 1: invalid syntax"),
        ("from readout.nowhere import x", "readout.nowhere: no such module"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_line(project, cell, message):
    with pytest.raises(ParameterError, match=message) as caught:
        fingerprint(project.notebook("toy", cell))
    assert "\n" not in str(caught.value)


def test_the_command_writes_only_what_changed(project, toy):
    out = project.path / "results" / "code" / "toy.json"
    assert project.command("fingerprint", toy, "-o", out).returncode == 0
    assert json.loads(out.read_text()) == fingerprint(toy)
    assert all(len(digest) == 16 for digest in fingerprint(toy)["cells"])
    written = out.stat().st_mtime_ns
    project.command("fingerprint", toy, "-o", out)
    assert out.stat().st_mtime_ns == written
    rewrite(toy, "f(2)", "%magic")
    failed = project.command("fingerprint", toy, "-o", out)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert failed.stderr.count("\n") == 1
    assert out.stat().st_mtime_ns == written


@pytest.mark.parametrize("module", ["run", "fingerprint", "why"])
def test_the_commands_import_nothing_slow_before_their_checks(module):
    slow = "{'torch', 'papermill', 'nbformat', 'numpy'}"
    code = f"import sys, readout.pipeline.{module}; print({slow} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"
