"""Values from outside a notebook: a section of `params.yaml`, and `name=value` on the command line.

Both are YAML 1.2, as DVC reads it: `1e-3` is a number and `no` is a string.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from readout.errors import ParameterError


def section(address: str) -> dict[str, Any]:
    """The mapping at `FILE:KEY.KEY`, such as `params.yaml:entropy_study.tiny`.

    Raises `ParameterError`, which names the keys that there are, for an unknown one.
    """
    file, colon, keys = address.rpartition(":")
    if not colon or not keys:
        raise ParameterError(f"--config {address}: expected FILE:SECTION, such as params.yaml:study.tiny")
    value = _load(_text(Path(file)), f"--config {file}")
    for key in keys.split("."):
        if not isinstance(value, dict) or key not in value:
            known = ", ".join(map(str, value)) if isinstance(value, dict) else "none"
            raise ParameterError(f"--config {address}: no section {key!r}; known here: {known}")
        value = value[key]
    if not isinstance(value, dict):
        raise ParameterError(f"--config {address}: is {value!r}; expected a section of parameters")
    return value


def assignments(given: Sequence[str]) -> dict[str, Any]:
    """The values of `name=value` texts, read as YAML; the last of two for one name counts.

    >>> assignments(["rate=1e-3", "layers=[0, 6]", "plot=true", "language=no"])
    {'rate': 0.001, 'layers': [0, 6], 'plot': True, 'language': 'no'}
    """
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ParameterError(f"--set {text}: expected name=value")
        values[name] = _load(value, f"--set {text}")
    return values


def load(path: Path) -> Any:
    """A YAML 1.2 file's plain value; `ParameterError` if there is none or it is not YAML."""
    return _load(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{path}: {error.strerror}; expected a YAML file") from None


def _load(text: str, where: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ParameterError(f"{where}, line {line}: {error.problem}; expected YAML") from None
    except YAMLError as error:
        raise ParameterError(f"{where}: {str(error).splitlines()[0]}; expected YAML") from None
