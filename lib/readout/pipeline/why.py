"""Says what made a stage stale: which code cell, module, parameter, asset or other dependency.

    python -m readout.pipeline.why [STAGE]

A stage `name@profile` runs `notebooks/<axis>/name.ipynb` and leaves its record in
`results/<profile>/runs/name.json`. Code and parameters are compared with that record, so they are named
one by one; everything else that a stage depends on is asked of DVC.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from readout.errors import ParameterError
from readout.paths import root
from readout.pipeline import files, parameters, settings
from readout.pipeline.fingerprint import differences, fingerprint

_CODE = "results/code/"


def why(stage: str, project: Path, dvc_status: dict[str, Any]) -> list[str]:
    """The reasons for which the stage would run again, none if it is up to date.

    `dvc_status` is what `dvc status --json` answers; it maps stages to what has changed for them.
    """
    name, _, profile = stage.partition("@")
    record = _read_json(project / "results" / profile / "runs" / f"{name}.json") or {}
    notebook = next(project.glob(f"notebooks/**/{name}.ipynb"), None)
    code = _code_changes(name, record, notebook, project) if notebook else []
    told = _parameter_changes(record, notebook, project) if notebook and record else []
    return code + told + list(_dvc_changes(dvc_status.get(stage, []), bool(code), bool(told)))


def stages(project: Path, dvc_status: dict[str, Any]) -> list[str]:
    """The stages that have run or that DVC would run, without those that only write fingerprints."""
    lock = project / "dvc.lock"
    locked = (settings.load(lock) or {}).get("stages", {}) if lock.is_file() else {}
    records = project.glob("results/*/runs/*.json")
    recorded = {f"{record.stem}@{record.parent.parent.name}" for record in records}
    return sorted(name for name in recorded | set(locked) | set(dvc_status) if not name.startswith("code@"))


def ask_dvc(project: Path) -> dict[str, Any]:
    """What `dvc status` finds changed, by stage; nothing where DVC was not set up."""
    if not (project / ".dvc").is_dir():
        return {}
    command = [sys.executable, "-m", "dvc", "status", "--json"]
    answer = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or ["no message"]
        raise ParameterError(f"dvc status failed: {lines[0]}")
    return json.loads(answer.stdout)


def main(
    stage: Annotated[str | None, typer.Argument(help="Such as study@tiny; all if left out.")] = None,
) -> None:
    """Print one line for each reason that makes STAGE stale, or that it is up to date."""
    try:
        project = root(Path.cwd())
        dvc_status = ask_dvc(project)
        known = stages(project, dvc_status)
        if stage and stage not in known:
            raise ParameterError(f"{stage}: unknown stage; known: {', '.join(known) or 'none has run'}")
        for name in [stage] if stage else known:
            for reason in why(name, project, dvc_status) or ["up to date"]:
                typer.echo(f"{name}: {reason}")
    except ParameterError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _code_changes(name: str, record: dict[str, Any], notebook: Path, project: Path) -> list[str]:
    # A fresh clone has no record, but may hold the fingerprint that the stage depends on.
    last = record.get("fingerprint") or _read_json(project / _CODE / f"{name}.json")
    return differences(last, fingerprint(notebook)) if last else []


def _parameter_changes(record: dict[str, Any], notebook: Path, project: Path) -> list[str]:
    declared = parameters.of_notebook(files.read_notebook(notebook))
    old = record["parameters"]
    try:
        # The record's address is relative to the project's root, where DVC runs its commands.
        told = settings.section(str(project / record["config"])) if record["config"] else {}
        new = parameters.defaults(declared) | parameters.check(
            declared, told | settings.assignments(record["set"])
        )
    except ParameterError as error:
        return [str(error)]
    names = [name for name in old | new if old.get(name, "none") != new.get(name, "none")]
    return [f"parameter {name}: {old.get(name, 'none')} -> {new.get(name, 'none')}" for name in names]


def _dvc_changes(entries: list[Any], code_is_named: bool, parameters_are_named: bool) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for path, state in entry.get("changed deps", {}).items():
            if isinstance(state, dict):
                if not parameters_are_named:
                    yield from (f"parameter {name} {what}" for name, what in state.items())
            elif not (code_is_named and path.startswith(_CODE)):
                yield f"{path} {state}"
        for path, state in entry.get("changed outs", {}).items():
            yield f"output {path} {state}"


if __name__ == "__main__":
    typer.run(main)
