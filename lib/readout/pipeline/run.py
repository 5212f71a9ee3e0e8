"""Runs one notebook: everything is checked first, and the result is put in place only when it is whole.

    python -m readout.pipeline.run NOTEBOOK -o OUT --config params.yaml:study.tiny --set n_texts=20

Exit status: 0 done; 1 the notebook failed, and OUT is as it was; 2 refused before any work; 130 on Ctrl-C,
143 on SIGTERM. What an unfinished run left is kept in `results/failed/`. With OUT the same as NOTEBOOK and
no parameters, it refreshes the outputs that the notebook is stored with.
"""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from readout.errors import ParameterError, RunError
from readout.paths import root
from readout.pipeline import files, parameters, settings
from readout.pipeline.fingerprint import differences, fingerprint
from readout.pipeline.kernel import execute
from readout.pipeline.record import describe


@dataclass(frozen=True)
class Job:
    """A run that passed every check."""

    notebook: Path
    output: Path
    project: Path
    given: dict[str, Any]
    fingerprint: dict[str, Any]
    about: dict[str, Any]

    @property
    def part(self) -> Path:
        """Where the notebook executes: beside its output, so that it moves into place at one stroke."""
        return self.output.with_name(f".{self.output.stem}.tmp.ipynb")

    @property
    def failed(self) -> Path:
        """Where an unfinished run is kept."""
        return self.project / "results" / "failed" / self.output.name


def prepare(
    notebook: Path, output: Path, config: str | None, assigned: list[str], expected: Path | None = None
) -> Job:
    """Check the notebook, its code and its parameters; raises `ParameterError`, and changes no file.

    `expected` holds the fingerprint that the code must have: the one that DVC files the results under.
    """
    notebook, output = notebook.resolve(), output.resolve()
    project = root(notebook)
    content = files.read_notebook(notebook)
    declared = parameters.of_notebook(content)
    from_config = settings.section(config) if config else {}
    given = parameters.check(declared, from_config | settings.assignments(assigned))
    _check_cells(notebook, content, refresh=output == notebook, has_given=bool(given))
    code = fingerprint(notebook)
    if expected and (changed := differences(json.loads(expected.read_text()), code)):
        raise ParameterError(
            f"{notebook.name}: edited since {expected} ({', '.join(changed)}); run dvc repro again"
        )
    about = {
        "notebook": notebook.relative_to(project).as_posix(),
        "config": config,
        "set": assigned,
        "parameters": parameters.defaults(declared) | given,
    }
    return Job(notebook, output, project, given, code, about)


def perform(job: Job) -> dict[str, Any]:
    """Execute the notebook and put it in place; gives the run's record.

    Raises `RunError` if it did not run to its end, or if its code was edited meanwhile.
    """
    # Slow to import, and not needed to refuse a wrong parameter.
    import nbformat

    from readout.pipeline.normalise import as_text, local_names, normalise

    def clean(path: Path) -> str:
        return as_text(
            normalise(nbformat.v4.reads(path.read_text(encoding="utf-8")), local_names(job.project))
        )

    started = datetime.now(UTC)
    job.failed.unlink(missing_ok=True)
    try:
        files.replace_text(job.part, clean(job.notebook))
        execute(job.part, job.given, job.project)
        _require_same_code(job)
        files.replace_text(job.part, clean(job.part))
    except BaseException:
        _keep(job)
        raise
    os.replace(job.part, job.output)
    return job.about | {"fingerprint": job.fingerprint} | describe(started, job.project)


@contextmanager
def alone(job: Job) -> Iterator[None]:
    """Refuse, by `ParameterError`, a second run that would write the same output at the same time."""
    digest = hashlib.sha256(str(job.output).encode()).hexdigest()[:8]
    path = job.project / "results" / "locks" / f"{job.output.stem}-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(f"another run is writing {job.output}; wait for it to end") from None
        yield


def main(
    notebook: Annotated[Path, typer.Argument(help="The notebook to run.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the executed notebook goes.")],
    config: Annotated[str | None, typer.Option(help="FILE:SECTION with parameters.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="name=value in YAML; can be repeated.")] = None,
    record: Annotated[Path | None, typer.Option(help="Where the run's record goes.")] = None,
    expect: Annotated[Path | None, typer.Option(help="Fingerprint that the code must have.")] = None,
) -> None:
    """Run NOTEBOOK with checked parameters and put the executed record in place."""
    begun = time.monotonic()
    try:
        job = prepare(notebook, output, config, set or [], expect)
    except ParameterError as error:
        _fail(str(error), 2)
    try:
        with alone(job):
            made = perform(job)
            if record:
                files.replace_text(record, json.dumps(made, indent=1, sort_keys=True) + "\n")
    except ParameterError as error:
        _fail(str(error), 2)
    except (RunError, OSError) as error:
        _fail(f"{notebook.stem} {error}{_kept(job)}", 1)
    except KeyboardInterrupt:
        _fail(f"{notebook.stem} interrupted{_kept(job)}", 130)
    except SystemExit as exit_:
        _fail(f"{notebook.stem} terminated{_kept(job)}", exit_.code)
    typer.echo(f"{notebook.stem} -> {output} ({time.monotonic() - begun:.1f} s)", err=True)


def _check_cells(notebook: Path, content: dict[str, Any], refresh: bool, has_given: bool) -> None:
    cells = files.code_cells(content)
    if any("injected-parameters" in files.tags(cell) for cell in cells):
        raise ParameterError(f"{notebook}: is the record of a run; expected the notebook it was made from")
    if not cells or "done" not in files.tags(cells[-1]):
        raise ParameterError(f"{notebook}: expected the tag `done` on the last code cell")
    if refresh and has_given:
        raise ParameterError(
            f"{notebook}: refreshed in place with parameters; expected none, or another output"
        )


def _require_same_code(job: Job) -> None:
    try:
        changed = differences(job.fingerprint, fingerprint(job.notebook))
    except ParameterError as error:
        changed = [str(error)]
    if changed:
        raise RunError(f"was edited while it ran, so its results fit no version: {', '.join(changed)}")


def _keep(job: Job) -> None:
    if job.part.is_file():
        job.failed.parent.mkdir(parents=True, exist_ok=True)
        os.replace(job.part, job.failed)


def _kept(job: Job) -> str:
    return f"; see {os.path.relpath(job.failed)}" if job.failed.is_file() else ""


def _fail(message: str, status: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    typer.run(main)
