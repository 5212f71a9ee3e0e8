"""A project of its own in a temporary folder, with small wheels that pip finds without a network."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from readout import paths

PAYLOAD = {
    "small/data/a.txt": b"alpha",
    "small/data/deep/b.txt": b"beta" * 1000,
    "small/__init__.py": b"raise RuntimeError('a fetched package was imported')",
}


def dist_info(name: str, version: str) -> dict[str, bytes]:
    folder = f"{name}-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{folder}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/licenses/LICENSE": b"do what you like",
        f"{folder}/RECORD": b"",
    }


class Project:
    """A checkout: `dvc.yaml`, `assets.toml`, `assets/`, and `wheels/` beside them."""

    def __init__(self, root: Path):
        self.root, self.assets, self.wheels = root, root / "assets", root / "wheels"
        self.wheels.mkdir()
        (root / "dvc.yaml").write_text("stages: {}\n")

    def add_wheel(self, payload: dict[str, bytes] = PAYLOAD, version: str = "1.0") -> str:
        """Put a wheel of `small` where pip looks; return its sha256."""
        wheel = self.wheels / f"small-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, content in (payload | dist_info("small", version)).items():
                archive.writestr(zipfile.ZipInfo(path), content)
        return hashlib.sha256(wheel.read_bytes()).hexdigest()

    def register(self, **changes: object) -> None:
        """Write `assets.toml` with one package asset; a field set to None is left out."""
        table = {
            "kind": "data",
            "source": "pypi",
            "package": "small",
            "version": "1.0",
            "sha256": "0" * 64,
            "path": "small/data",
            "licence": "MIT",
            "size_mb": 1,
            "purpose": "A test.",
            "profiles": ["tiny"],
        } | changes
        lines = [f"{key} = {value!r}\n" for key, value in table.items() if value is not None]
        (self.root / "assets.toml").write_text("[small]\n" + "".join(lines))

    def left_over(self) -> list[str]:
        """Everything below `assets/` but the lock of the running fetch."""
        return sorted(p.name for p in self.assets.rglob("*") if p.name != ".fetch.lock")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("READOUT_ASSETS", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    made = Project(tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.wheels))
    paths.root.cache_clear()
    yield made
    paths.root.cache_clear()
