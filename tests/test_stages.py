"""The real pipeline in fresh checkouts: the same bytes twice, and a stage runs again for a change of code alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
STAGE = "entropy_study@tiny"
# One that only reads a model, one that trains, and one that reads what was trained; each runs here twice.
TARGETS = [STAGE, "probe@tiny"]
STAGES = ("entropy_study", "train_scorers", "probe")
WRITTEN = ["results/tiny/notebooks", *(f"{part}/tiny/{s}" for part in ("results", "figures") for s in STAGES)]
IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]

pytestmark = [pytest.mark.slow, pytest.mark.assets]


def start(folder, *command):
    """A command in a checkout, with the running Python, the checkout's library and the real assets."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PYTHONPATH": str(folder / "lib")}
    env |= {"READOUT_ASSETS": str(ROOT / "assets")}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def end(process):
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    return printed


def copy_tree(folder):
    """What a commit of the working tree as it stands would hold, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for command in (["init", "-q"], ["add", "-A"], [*IDENTITY, "commit", "-q", "-m", "copy"]):
        end(start(folder, "git", *command))


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Two checkouts in folders of different depth, in each of which every stage has run from nothing."""
    folders = [tmp_path_factory.mktemp("checkouts") / name for name in ("one", "deeper/two")]
    for folder in folders:
        copy_tree(folder)
    for process in [start(folder, "dvc", "repro", "-f", *TARGETS) for folder in folders]:
        printed = end(process)
        assert [stage for stage in STAGES if f"Running stage '{stage}@tiny'" not in printed] == []
    return folders


@pytest.fixture
def checkout(checkouts):
    """One of the two, as it was committed and run, whatever a test before has edited."""
    end(start(checkouts[0], "git", "checkout", "-q", "HEAD", "--", "lib", "notebooks", "params.yaml"))
    end(start(checkouts[0], "dvc", "repro", "-q", STAGE))
    return checkouts[0]


def test_two_checkouts_write_the_same_bytes(checkouts):
    written = [
        {
            path.relative_to(folder): path.read_bytes()
            for part in [*WRITTEN, "dvc.lock"]
            for path in [folder / part, *(folder / part).rglob("*")]
            if path.is_file()
        }
        for folder in checkouts
    ]
    one, two = written
    assert {path.suffix for path in one} >= {".ipynb", ".parquet", ".svg", ".pdf", ".png", ".csv", ".lock"}
    assert [str(path) for path in one.keys() | two.keys() if one.get(path) != two.get(path)] == []


def test_a_second_repro_runs_nothing(checkout):
    printed = end(start(checkout, "dvc", "repro", STAGE))
    assert "Running stage" not in printed
    assert f"Stage '{STAGE}' didn't change, skipping" in printed


def test_saving_the_notebook_and_commenting_the_library_run_no_heavy_stage(checkout):
    path = checkout / "notebooks" / "layers" / "entropy_study.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["saved_by"] = "another editor"
    for cell in notebook.cells:
        cell.metadata["collapsed"] = True
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)
    module = checkout / "lib" / "readout" / "lenses" / "curvature.py"
    module.write_text(f"# A remark.\n{module.read_text()}")
    printed = end(start(checkout, "dvc", "repro", STAGE))
    assert printed.count("Running stage") == 1
    assert "Running stage 'code@entropy_study'" in printed
    assert f"Stage '{STAGE}' didn't change, skipping" in printed


def test_a_changed_number_makes_the_stage_stale_and_why_names_its_module(checkout):
    why = [sys.executable, "-m", "readout.pipeline.why", STAGE]
    assert end(start(checkout, *why)) == f"{STAGE}: up to date\n"
    module = checkout / "lib" / "readout" / "lenses" / "curvature.py"
    code = module.read_text()
    assert "clamp(-1.0, 1.0)" in code
    module.write_text(code.replace("clamp(-1.0, 1.0)", "clamp(-1.0, 0.5)"))
    assert end(start(checkout, *why)) == f"{STAGE}: module readout.lenses.curvature changed\n"
    end(start(checkout, "dvc", "repro", "-q", "code@entropy_study"))
    assert f"{STAGE}:\n\tchanged deps" in end(start(checkout, "dvc", "status", STAGE))
