"""Models and data from the Hugging Face hub: one commit, safetensors and text files only, no code.

A repository without a commit in `assets.toml` is resolved once, at its `branch` or else at the main one; the commit
goes to `assets.lock.toml`, which belongs into version control, and every later fetch is held to it.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from readout.errors import AssetError
from readout.paths import root
from readout.sources.assets import Asset, read_lock, sha256

_MODEL_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "README.md", "LICENSE*"]
_DATA_FILES = ["*.parquet", "*.jsonl", "*.json", "*.csv", "*.txt", "README.md", "LICENSE*"]


def from_hub(asset: Asset, scratch: Path, built: Path) -> tuple[str, dict[str, str]]:
    """Fill `built` with the asset's repository at its commit; return its pin and its origin.

    Raises AssetError where the hub cannot be reached, asks for permission (the message names the page), has no
    such repository or commit, or where a file arrives in another size or sha256 than the hub lists.
    """
    from huggingface_hub import errors

    try:
        revision = _commit(asset)
        _download(asset, revision, built)
    # The hub's client re-exports its transport's base error, whichever transport its release uses.
    except (errors.HTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise AssetError(f"asset '{asset.id}': {_why(asset, error)}, then fetch again") from None
    return replace(asset, revision=revision).pin, {"page": _page(asset)}


def _why(asset: Asset, error: Exception) -> str:
    from huggingface_hub import errors

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{_page(asset)} has no commit {asset.revision}: correct it in assets.toml"
    # The hub answers 401 for a repository that does not exist as well as for one that is closed.
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        return (
            f"not open to you: open {_page(asset)}, accept its conditions if it has any, run `hf auth login`"
        )
    return f"{_page(asset)} could not be had ({str(error).splitlines()[0]}): check the network"


def _download(asset: Asset, revision: str, built: Path) -> None:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.hf_api import RepoFile

    where = {"repo_id": asset.repo, "repo_type": _type(asset), "revision": revision}
    # A model's subfolders hold the same weights in formats of other frameworks; those of a data set hold its parts.
    whole = (_MODEL_FILES, ["*/*"]) if asset.kind == "model" else (_DATA_FILES, None)
    allow, ignore = (asset.wanted, None) if asset.wanted else whole
    snapshot_download(**where, allow_patterns=allow, ignore_patterns=ignore, local_dir=built)
    shutil.rmtree(built / ".cache")
    listed = {f.path: f for f in HfApi().list_repo_tree(**where, recursive=True) if isinstance(f, RepoFile)}
    arrived = [path for path in built.rglob("*") if path.is_file()]
    if not arrived:
        raise AssetError(f"asset '{asset.id}': {_page(asset)} holds none of the files wanted at {revision}")
    for path in arrived:
        _check(asset, path, listed[path.relative_to(built).as_posix()])


def _check(asset: Asset, path: Path, listed) -> None:
    short = path.stat().st_size != listed.size
    if short or (listed.lfs is not None and sha256(path) != listed.lfs.sha256):
        raise AssetError(f"asset '{asset.id}': {listed.path} arrived damaged: fetch again")


def _commit(asset: Asset) -> str:
    """The commit to fetch, asked of the hub first since a download retries for long where this fails at once."""
    from huggingface_hub import HfApi

    info = HfApi().repo_info(
        asset.repo, repo_type=_type(asset), revision=asset.revision or asset.branch or None
    )
    if not asset.revision:
        _record(asset.id, info.sha)
    return info.sha


def _record(id: str, commit: str) -> None:
    locked = sorted((read_lock() | {id: commit}).items())
    beside = root() / ".assets.lock.toml.part"
    beside.write_text("".join(f'"{id}" = "{commit}"\n' for id, commit in locked), encoding="utf-8")
    os.replace(beside, root() / "assets.lock.toml")


def _type(asset: Asset) -> str:
    return "dataset" if asset.kind == "data" else "model"


def _page(asset: Asset) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{'datasets/' if asset.kind == 'data' else ''}{asset.repo}"
