"""environment.yml is thin and true: conda's part parses, pip's part resolves against the pins."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rattler import MatchSpec
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def environment():
    return YAML(typ="safe").load((ROOT / "environment.yml").read_text())


def test_conda_part_parses_and_meets_the_python_floor(environment):
    specs = [d for d in environment["dependencies"] if isinstance(d, str)]
    names = {str(MatchSpec(s).name.normalized): MatchSpec(s) for s in specs}
    assert set(names) == {"python", "pip"}
    floor = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert str(names["python"].version).endswith(floor.removeprefix(">=") + ".*")


def test_pip_part_resolves_as_conda_would_run_it(environment):
    """conda writes the list to a file beside environment.yml and calls `pip install -r` on it."""
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    requirements = ROOT / "condaenv.test.requirements.txt"
    try:
        requirements.write_text("\n".join(pip) + "\n")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "-r", requirements]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    finally:
        requirements.unlink(missing_ok=True)
    assert ran.returncode == 0, ran.stderr


def test_pins_hold_what_is_installed():
    """Every pin that applies here is the version that runs here; torch is pinned without a local label."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement

    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert [str(p.specifier) for p in pins if p.name == "torch"] == ["==2.13.0"]
    wrong = {}
    for pin in pins:
        if pin.marker is None or pin.marker.evaluate():
            try:
                found = version(pin.name)
            except PackageNotFoundError:
                continue  # a pin only speaks of what is pulled in on this platform
            if not pin.specifier.contains(found.split("+")[0], prereleases=True):
                wrong[pin.name] = (str(pin.specifier), found)
    assert not wrong
