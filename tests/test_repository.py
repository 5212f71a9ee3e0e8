"""What must hold of the tree as a whole: no machine's paths, no stray outputs, every public name documented."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TRACKED = [
    ROOT / f
    for f in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    if (ROOT / f).is_file()
]
NOTEBOOKS = [f for f in TRACKED if f.suffix == ".ipynb"]
MODULES = [f for f in TRACKED if f.suffix == ".py" and f.is_relative_to(ROOT / "lib")]


def test_no_path_of_a_machine_and_no_registry_host():
    pattern = re.compile(
        r"(?<![\w.])/(?:home|root|work|Users)/\w|/tmp/(?!ipykernel_)\w|pypi\.org|pythonhosted|deb\.debian"
    )
    found = {}
    for file in TRACKED:
        if file.suffix not in {".png", ".pdf"} and file != Path(__file__).resolve():
            lines = [line for line in file.read_text().splitlines() if pattern.search(line)]
            if lines:
                found[file.name] = lines[0][:120]
    assert not found


def test_no_large_file():
    assert {f.name: f.stat().st_size for f in TRACKED if f.stat().st_size > 1_000_000} == {}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_was_run_top_to_bottom_and_is_clean(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [o for c in code for o in c["outputs"]]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    tagged = [c for c in code if "parameters" in c["metadata"].get("tags", [])]
    lengths = [len("".join(c["source"]).splitlines()) for c in code if c not in tagged]
    assert [length for length in lengths if length > 15] == []
    assert "parameters" in [tag for c in code for tag in c["metadata"].get("tags", [])]
    assert "done" in code[-1]["metadata"].get("tags", [])


def _public(tree: ast.Module):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (
                    n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
                )


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(ROOT / "lib" / "readout")))
def test_every_module_and_public_name_says_what_it_answers(module):
    tree = ast.parse(module.read_text())
    assert ast.get_docstring(tree)
    assert [node.name for node in _public(tree) if not ast.get_docstring(node)] == []


def test_data_flows_one_way():
    """A lens imports no source, state, report or pipeline; a report no source, state or lens; the runner no torch."""
    forbidden = {
        "states": {"sources", "lenses", "report", "pipeline"},
        "lenses": {"sources", "states", "report", "pipeline"},
        "report": {"sources", "states", "lenses"},
        "pipeline": {"sources", "states", "lenses", "report"},
    }
    wrong = []
    for module in MODULES:
        layer = module.parent.name
        for line in re.findall(r"^\s*(?:from|import) readout\.(\w+)", module.read_text(), re.M):
            if line in forbidden.get(layer, set()):
                wrong.append(f"{layer}/{module.name} imports readout.{line}")
    assert not wrong
