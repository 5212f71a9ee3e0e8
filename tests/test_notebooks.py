"""Notebooks as a user runs them: profiles that fit, input that is refused, and a stored number that is noticed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from ruamel.yaml import YAML

from readout.pipeline import parameters
from readout.sources.assets import load_registry

ROOT = Path(__file__).resolve().parents[1]
STUDY = "notebooks/layers/entropy_study.ipynb"
OUTPUT = "results/out/study.ipynb"
PARAMS = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
PROFILES = [(stage, profile) for stage in PARAMS if stage != "profiles" for profile in PARAMS[stage]]
# Each is slow to import, and none is needed to refuse a parameter.
HEAVY = ("torch", "transformers", "pandas", "papermill")


def declared(stage):
    (notebook,) = ROOT.glob(f"notebooks/*/{stage}.ipynb")
    return parameters.of_notebook(json.loads(notebook.read_text()))


@pytest.mark.parametrize(("stage", "profile"), PROFILES)
def test_a_profile_changes_only_what_its_notebook_declares(stage, profile):
    given = PARAMS[stage][profile]
    assert parameters.check(declared(stage), given) == given
    assert given["profile"] == profile
    if profile == "tiny":
        assert given.keys() == {"profile"}


@pytest.mark.parametrize(("stage", "profile"), PROFILES)
def test_a_profile_reads_only_assets_that_it_fetches(stage, profile):
    given, registry = parameters.defaults(declared(stage)) | PARAMS[stage][profile], load_registry()
    named = [given.get(key, []) for key in ("models", "model", "corpora", "corpus")]
    for name in [asset for value in named for asset in ([value] if isinstance(value, str) else value)]:
        assert profile in registry[name].profiles, name


def test_every_stage_has_a_section_for_every_profile_that_runs():
    assert PARAMS["profiles"][0] == "tiny"
    for stage in PARAMS.keys() - {"profiles"}:
        assert set(PARAMS["profiles"]) <= PARAMS[stage].keys()


@pytest.fixture
def checkout(tmp_path):
    """Makes folders of the real notebooks, parameters and library, where a test may look at every file."""

    def make(name):
        folder = tmp_path / name
        for part in ("notebooks", "lib"):
            ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        for file in ("dvc.yaml", "params.yaml", "assets.toml"):
            shutil.copy(ROOT / file, folder)
        return folder

    return make


def start(folder, module, *arguments, path=()):
    """A command in a checkout, with its own library and the real assets."""
    path = os.pathsep.join(map(str, [*path, folder / "lib"]))
    env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TQDM_DISABLE": "1"}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env |= {"READOUT_ASSETS": str(ROOT / "assets")}
    command, pipe = [sys.executable, "-m", module, *arguments], subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def run(folder, *arguments, path=()):
    return start(folder, "readout.pipeline.run", STUDY, "-o", OUTPUT, *arguments, path=path)


def end(process):
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


REFUSED = {
    "--set n_text=20": "n_text = 20: unknown parameter; did you mean n_texts? Known: profile, models",
    "--set n_texts='20'": "n_texts = '20': expected int, written without quotes",
    "--set n_texts=many": "n_texts = 'many': expected int",
    "--set n_texts=-1": "n_texts = -1: out of range; expected >= 8",
    "--set models=all-minilm-l6-v2": "models = 'all-minilm-l6-v2': expected list[str]",
    "--set profile=huge": "profile = 'huge': expected Literal['scratch', 'tiny', 'laptop', 'paper']",
    "--config params.yaml:entropy_study.huge": "no section 'huge'; known here: tiny, laptop, paper",
}


@pytest.mark.parametrize("given", REFUSED)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(checkout, tmp_path, given):
    folder, poison = checkout("project"), tmp_path / "poison"
    poison.mkdir()
    for name in HEAVY:
        (poison / f"{name}.py").write_text("raise SystemExit('imported before the parameters were checked')")
    before = sorted(folder.rglob("*"))
    status, stdout, stderr = end(run(folder, *given.split(), path=[poison]))
    assert (status, stdout) == (2, "")
    assert stderr.startswith("error: ")
    assert REFUSED[given] in stderr
    assert stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.assets
def test_one_model_without_a_final_norm_is_enough(checkout):
    folder = checkout("project")
    status, _, stderr = end(run(folder, "--set", "models=[all-minilm-l6-v2]", "--set", "n_texts=8"))
    assert status == 0, stderr
    assert sorted((folder / "figures" / "scratch" / "entropy_study").glob("*.svg"))


FAULTS = {
    "no weights": ([], "AssetError: model folder 'mine' has no *.safetensors"),
    "pickle": (["pytorch_model.bin"], "AssetError: 'mine/pytorch_model.bin' is a pickle, which can run code"),
}


@pytest.mark.slow
@pytest.mark.assets
def test_a_model_folder_that_cannot_be_trusted_ends_the_run_in_one_line(checkout):
    running = {}
    for fault, (weights, _) in FAULTS.items():
        folder = checkout(fault)
        for name in ["mine/config.json", "mine/tokenizer.json", *(f"mine/{w}" for w in weights), OUTPUT]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("{}")
        running[folder] = run(folder, "--set", "models=[./mine]", "--set", "n_texts=8")
    for (folder, process), (_, message) in zip(running.items(), FAULTS.values(), strict=True):
        status, stdout, stderr = end(process)
        assert (status, stdout) == (1, "")
        assert stderr.startswith("error: entropy_study failed in cell In[")
        assert message in stderr
        assert stderr.count("\n") == 1
        assert [*(folder / OUTPUT).parent.iterdir()] == [folder / OUTPUT]
        assert (folder / OUTPUT).read_text() == "{}"
        assert not (folder / "results" / "scratch").exists()
        assert not (folder / "figures").exists()


def shorten(path):
    """Leave of the study what one small model needs: it must then still print what the whole one has stored."""
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    table = next(n for n, cell in enumerate(code) if "write_table(" in cell.source)
    (reading,) = [cell for cell in code if "reading(curves, encoder)" in cell.source]
    code[0].source += '\nmodels = ["all-minilm-l6-v2"]'
    code[table].metadata.tags = []  # the number of rows is that of two models
    reading.source = reading.source.replace("encoder", "models[0]")
    notebook.cells = [*code[: table + 1], reading]
    nbformat.write(notebook, path)
    return reading.outputs[0].text


def change(module, old, new):
    code = module.read_text()
    assert code.count(old) == 1
    module.write_text(code.replace(old, new))


@pytest.mark.slow
@pytest.mark.assets
def test_nbval_notices_a_number_that_the_library_changed(checkout):
    same, changed = checkout("same"), checkout("changed")
    bound = "room = (tokens.n_tokens - 1).clamp"
    change(changed / "lib" / "readout" / "lenses" / "prompt.py", bound, bound.replace("- 1", "+ 9"))
    check = ["--nbval-lax", "--nbval-current-env", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    stored = [shorten(folder / STUDY) for folder in (same, changed)]
    passing, failing = [
        start(folder, "pytest", *check, "--rootdir", ".", STUDY) for folder in (same, changed)
    ]
    status, stdout, _ = end(passing)
    assert status == 0, stdout
    status, stdout, _ = end(failing)
    assert status == 1, stdout
    assert "1 failed" in stdout
    assert stored[0].strip() in stdout
    assert "lowest at block" in stdout.replace(stored[0].strip(), "")


def test_committed_notebooks_are_normalised_and_a_stray_one_is_named(tmp_path):
    command = [sys.executable, "-m", "readout.pipeline.normalise"]
    stored = sorted((ROOT / "notebooks").glob("*/*.ipynb"))
    assert subprocess.run([*command, *stored], cwd=ROOT, capture_output=True).returncode == 0
    notebook = json.loads(stored[0].read_text())
    notebook["cells"][0]["metadata"]["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    stray = tmp_path / "stray.ipynb"
    stray.write_text(json.dumps(notebook))
    done = subprocess.run([*command, stray], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "stray.ipynb: outputs are not normalised" in done.stderr
