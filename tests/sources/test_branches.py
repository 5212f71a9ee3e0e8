from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import filter_repo_objects

from readout.errors import AssetError
from readout.sources import assets, hub

COMMIT = "a" * 40
HUB = {"source": "hub", "repo": "org/name", "package": None, "version": None, "sha256": None, "path": None}


@pytest.fixture
def asked(monkeypatch):
    """What the hub is asked for, and that it answers every question with one commit."""
    revisions = []

    def repo_info(self, repo, repo_type, revision):
        revisions.append(revision)
        return SimpleNamespace(sha=COMMIT)

    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", repo_info)
    return revisions


def test_a_branch_is_resolved_once_and_its_commit_enforced_after(project, asked):
    project.register(**HUB, branch="wit_1024")
    assert hub._commit(assets.find("small")) == COMMIT
    assert (project.root / "assets.lock.toml").read_text() == f'"small" = "{COMMIT}"\n'
    assert assets.find("small").pin == f"org/name@{COMMIT}"
    hub._commit(assets.find("small"))
    assert asked == ["wit_1024", COMMIT]


def test_without_a_branch_it_is_the_main_one(project, asked):
    project.register(**HUB)
    hub._commit(assets.find("small"))
    assert asked == [None]


def test_a_package_has_no_branch(project):
    project.register(branch="main")
    with pytest.raises(AssetError, match="field 'branch' is unknown for source 'pypi'"):
        assets.load_registry()


FILES = ["README.md", "test.jsonl", "base-2/train-0.parquet", "gpqa.csv", "load.py", "x.zip", "w.safetensors"]


@pytest.mark.parametrize(
    ("kind", "brought"), [("data", FILES[:4]), ("model", ["README.md", "w.safetensors"])]
)
def test_a_data_set_is_brought_with_its_folders_and_without_code(
    project, asked, monkeypatch, tmp_path, kind, brought
):
    def snapshot_download(allow_patterns, ignore_patterns, local_dir, **_):
        (local_dir / ".cache").mkdir(parents=True)
        for name in filter_repo_objects(
            FILES, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns
        ):
            (local_dir / name).parent.mkdir(exist_ok=True)
            (local_dir / name).write_bytes(b"x")

    listed = [RepoFile(path=name, size=1, oid="0" * 40) for name in FILES]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_tree", lambda *_, **__: listed)
    project.register(**HUB, kind=kind)
    hub.from_hub(assets.find("small"), tmp_path, tmp_path / "built")
    arrived = (p.relative_to(tmp_path / "built") for p in (tmp_path / "built").rglob("*") if p.is_file())
    assert sorted(map(str, arrived)) == sorted(brought)
