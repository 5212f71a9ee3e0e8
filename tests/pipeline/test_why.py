import json
import os
import subprocess
import sys
from pathlib import Path

from readout.pipeline.why import why

PIPELINE = """stages:
  code:
    foreach: [toy]
    do:
      cmd: python -m readout.pipeline.fingerprint notebooks/axis/toy.ipynb -o results/code/toy.json
      deps: [notebooks/axis/toy.ipynb, lib]
      outs: [results/code/toy.json]
  toy:
    foreach: [tiny]
    do:
      cmd: python -m readout.pipeline.run notebooks/axis/toy.ipynb -o results/${item}/toy.ipynb
        --config params.yaml:toy.${item} --record results/${item}/runs/toy.json
      deps: [results/code/toy.json, asset.txt]
      params: ["toy.${item}"]
      outs: ["results/${item}/toy.ipynb"]
"""


def dvc(project, *arguments):
    # Kernels and commands of the stage use the library of the project, the tools the installed one.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    installed = str(Path(__file__).parents[2] / "lib")
    command = [sys.executable, "-m", "dvc", *arguments]
    environment = os.environ | {"PATH": path, "PYTHONPATH": installed}
    subprocess.run(command, cwd=project.path, env=environment, check=True, capture_output=True)


def test_a_real_pipeline_says_which_part_made_a_stage_stale(project):
    toy = project.notebook("toy", "import readout")
    project.write("dvc.yaml", PIPELINE)
    project.write("asset.txt", "a")
    dvc(project, "init", "--no-scm", "-q")
    never = project.command("why", "toy@tiny")
    assert "toy@tiny: results/code/toy.json deleted" in never.stdout
    dvc(project, "repro", "-q")
    assert project.command("why").stdout == "toy@tiny: up to date\n"

    toy.write_text(toy.read_text().replace("'end'", "'END'"))
    project.write("lib/readout/__init__.py", "WHERE = 'elsewhere'\n")
    project.write("params.yaml", "toy:\n  tiny: {n: 4, plot: false, layers: [1, 2], rate: 1e-3}\n")
    project.write("asset.txt", "b")
    assert project.command("why", "toy@tiny").stdout.splitlines() == [
        "toy@tiny: code cell 4 changed",
        "toy@tiny: module readout changed",
        "toy@tiny: parameter n: 3 -> 4",
        "toy@tiny: asset.txt modified",
    ]
    unknown = project.command("why", "toy@huge")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr == "error: toy@huge: unknown stage; known: toy@tiny\n"


def recorded(project, **parameters):
    record = {
        "fingerprint": {"cells": [], "modules": {}},
        "config": "params.yaml:toy.tiny",
        "set": ["rate=0.5"],
    }
    text = json.dumps(record | {"parameters": parameters})
    project.write("results/tiny/runs/toy.json", text)


def test_parameters_are_compared_with_the_values_that_the_run_had(project):
    project.notebook("toy")
    recorded(project, n=3, plot=False, layers=[1, 2], rate=0.5)
    assert not [reason for reason in why("toy@tiny", project.path, {}) if "parameter" in reason]
    recorded(project, n=5, plot=False, layers=[1], rate=0.5, old="x")
    reasons = [reason for reason in why("toy@tiny", project.path, {}) if "parameter" in reason]
    assert reasons == ["parameter n: 5 -> 3", "parameter layers: [1] -> [1, 2]", "parameter old: x -> none"]
    project.write("params.yaml", "toy: {tiny: {n: 0}}")
    assert "n = 0: out of range; expected >= 1" in why("toy@tiny", project.path, {})


def test_without_a_record_the_committed_fingerprint_is_compared(project):
    project.notebook("toy")
    project.write("results/code/toy.json", json.dumps({"cells": [], "modules": {"readout.gone": "a"}}))
    assert "module readout.gone no longer used" in why("toy@tiny", project.path, {})
    told = {"toy@tiny": [{"changed deps": {"params.yaml": {"toy.tiny.n": "modified"}}}, "changed command"]}
    assert why("toy@tiny", project.path, told)[-2:] == ["parameter toy.tiny.n modified", "changed command"]
