"""Every command, path and number in the README (and in the other guides) is true."""

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from readout.report.readme import render

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
GUIDES = {
    p.name: p.read_text()
    for p in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs/architecture.md")
}
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line.split("#")[0].strip()
    for language, block in BLOCKS
    if language == "bash"
    for line in block.splitlines()
    if line.split("#")[0].strip()
]


def test_tables_of_numbers_are_those_of_the_records():
    assert render(README, ROOT) == README, "run `make readme`"


@pytest.mark.parametrize("guide", GUIDES)
def test_links_and_named_paths_exist(guide):
    made_here = ("results/", "assets/", "figures/scratch", ".venv", "path/to")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", GUIDES[guide]) if "://" not in link]
    named = re.findall(r"`((?:[\w.-]+/)+[\w.*-]*|[\w-]+\.(?:toml|yaml|yml|cff|txt|md))`", GUIDES[guide])
    base = ROOT / "docs" if guide == "architecture.md" else ROOT
    missing = [p for p in links if not (base / p).exists()]
    missing += [p for p in named if not p.startswith(made_here) and not (ROOT / p).exists()]
    assert not missing


@pytest.mark.parametrize("guide", GUIDES)
def test_make_targets_exist(guide):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    used = {t for words in re.findall(r"make ((?:[a-z][\w-]* ?)+)", GUIDES[guide]) for t in words.split()}
    spoken = {w for w in used if re.search(rf"(?:`|^)make (?:[\w-]+ )*{w}\b", GUIDES[guide], re.M)}
    assert spoken
    assert spoken <= targets


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_accepted(command, monkeypatch):
    """What a command starts is tested elsewhere; here, that its names and options are real."""
    from readout.pipeline import run

    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    match words:
        case ["make", target, *_]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()
        case ["dvc", "repro", stage]:
            name, profile = stage.split("@")
            assert {"foreach", "do"} <= set(YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"][name])
            assert profile in YAML(typ="safe").load(ROOT / "params.yaml")[name]
        case ["python", "-m", "readout.pipeline.run", notebook, "-o", out, "--set", value]:
            job = run.prepare(Path(notebook), Path(out), None, [value])
            assert job.given
        case ["python", "-m", "readout.report.figures", csv]:
            assert (ROOT / csv).exists()
        case ["conda", "env", "create", "-f", file, *_]:
            assert (ROOT / file).exists()
        case _:
            pytest.fail(f"no check for {command!r}")


@pytest.mark.assets
def test_python_examples_run():
    blocks = [block for language, block in BLOCKS if language == "python"]
    assert len(blocks) == 2
    example = doctest.DocTestParser().get_doctest(blocks[0], {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner()
    assert runner.run(example).failed == 0
    names: dict = {}
    exec(blocks[1], names)
    assert names["pool"].states().shape == (7, 2, 384)


def test_finding_in_prose_is_that_of_the_curve():
    import pandas as pd

    table = pd.read_csv(ROOT / "figures/laptop/entropy_study/first-token.csv")
    trained = table[(table["model"] == "smollm2-135m-instruct") & (table["weights"] == "pretrained")]
    kept = trained[trained["first_token"] == "kept"].set_index("site")["value"]
    place, layers = re.search(r"at (block \d+) of (\d+)", README).groups()
    assert kept.idxmin() == place
    assert trained["layer"].max() == int(layers)


def test_cost_record_keeps_the_promised_bounds_and_names_its_machine():
    record = json.loads((ROOT / "benchmarks" / "pipeline.json").read_text())
    assert {"setup", "tiny", "entropy_study", "train_scorers", "no-op", "machine", "disk_gb"} <= set(record)
    assert record["machine"]["cores"] == 2
