import json
import re

import pytest

from readout import paths
from readout.errors import AssetError
from readout.sources import assets


def fetched(project, **changes):
    """Lay the registered asset out as a fetch would, and return its folder."""
    project.register(**changes)
    asset = assets.find("small")
    folder = project.assets / asset.folder
    (folder / "small/data/deep").mkdir(parents=True)
    (folder / "small/data/a.txt").write_bytes(b"alpha")
    (folder / "small/data/deep/b.txt").write_bytes(b"beta" * 1000)
    assets.write_manifest(folder, asset.pin, {"licence": "MIT"})
    return folder


def test_the_registry_of_the_project_is_valid_and_pins_every_package():
    paths.root.cache_clear()
    registry = assets.load_registry()
    assert {"all-minilm-l6-v2", "smollm2-135m-instruct", "sotu", "wikitext"} <= registry.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", a.sha256) for a in registry.values() if a.source == "pypi")
    assert all(re.fullmatch(r"([0-9a-f]{40})?", a.revision) for a in registry.values() if a.source == "hub")
    assert {a.id for a in registry.values() if "tiny" in a.profiles} == {
        a.id for a in registry.values() if "laptop" in a.profiles
    }


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"licence": None}, "field 'licence' is missing"),
        ({"sha256": None}, "field 'sha256' is missing"),
        ({"colour": "red"}, "field 'colour' is unknown"),
        ({"revision": "a" * 40}, "field 'revision' is unknown for source 'pypi'"),
        ({"source": "ftp"}, "source is 'ftp'; it must be 'pypi', 'sdist' or 'hub'"),
        ({"source": None}, "source is None"),
        ({"sha256": "abc"}, "sha256 is 'abc'; it must be 64 hex digits"),
        ({"kind": "picture"}, "kind is 'picture'; it must be 'model' or 'data'"),
        ({"size_mb": -1}, "size_mb is -1; it must be megabytes above 0"),
        ({"size_mb": "12"}, "size_mb is '12'"),
        ({"profiles": []}, r"profiles is \[\]"),
        ({"profiles": ["huge"]}, "profiles is .*'huge'.*tiny, laptop, paper"),
        ({"path": "../../etc"}, "path is .* it must be a relative path"),
        ({"path": "/etc"}, "path is .* it must be a relative path"),
        ({"purpose": ""}, "purpose is ''"),
    ],
)
def test_a_malformed_entry_is_refused_in_one_line_that_names_asset_and_field(project, changes, named):
    project.register(**changes)
    with pytest.raises(AssetError, match=f"asset 'small' of assets.toml: {named}") as caught:
        assets.load_registry()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ref", ["main", "v1.0", "refs/pr/1", "a" * 39])
def test_a_revision_that_can_move_is_refused(project, ref):
    project.register(source="hub", repo="a/b", revision=ref, package=None, version=None, sha256=None)
    with pytest.raises(AssetError, match="commit of 40 hex digits"):
        assets.load_registry()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"files": "train-*.parquet", "path": None}, "field 'path' is missing: files is a pattern within it"),
        (
            {"files": "../*.parquet"},
            r"files is '../\*.parquet'; it must be a name or pattern of files that lie in path",
        ),
        ({"files": ""}, "files is ''"),
        ({"files": "*", "source": "pypi"}, "field 'files' is unknown for source 'pypi'"),
    ],
)
def test_a_pattern_of_files_is_for_one_folder_of_a_hub_repository(project, changes, named):
    hub = {"source": "hub", "repo": "a/b", "package": None, "version": None, "sha256": None}
    packaged = {"package": "small", "version": "1.0", "sha256": "0" * 64, "repo": None}
    project.register(**(hub | (packaged if "source" in changes else {}) | changes))
    with pytest.raises(AssetError, match=named):
        assets.load_registry()


def test_the_pin_of_a_hub_asset_says_which_part_of_the_repository_it_is(project):
    hub = {"source": "hub", "repo": "a/b", "package": None, "version": None, "sha256": None}
    pinned = hub | {"revision": "a" * 40}
    pins = []
    for part in ({"path": None}, {"path": "data"}, {"path": "data", "files": "train-*.parquet"}):
        project.register(**pinned, **part)
        pins.append(assets.find("small").pin)
    assert pins == [f"a/b@{'a' * 40}{part}" for part in ("", " data/*", " data/train-*.parquet")]


def test_a_broken_or_missing_registry_is_one_line(project):
    with pytest.raises(AssetError, match=r"assets.toml does not exist"):
        assets.load_registry()
    (project.root / "assets.toml").write_text("[small\n")
    with pytest.raises(AssetError, match=r"assets.toml is not valid TOML"):
        assets.load_registry()


def test_the_lock_fills_in_a_revision_and_never_overrides_one(project):
    hub = {"source": "hub", "repo": "a/b", "package": None, "version": None, "sha256": None, "path": None}
    project.register(**hub)
    assert assets.find("small").pin == "a/b@"
    (project.root / "assets.lock.toml").write_text(f'small = "{"a" * 40}"\n')
    assert assets.find("small").pin == "a/b@" + "a" * 40
    project.register(**hub, revision="b" * 40)
    assert assets.find("small").pin == "a/b@" + "b" * 40
    (project.root / "assets.lock.toml").write_text('small = "main"\n')
    with pytest.raises(AssetError, match=r"of assets.lock.toml: revision is 'main'"):
        assets.load_registry()


def test_locate_hands_out_the_registered_part_of_an_intact_asset(project):
    folder = fetched(project)
    assert assets.locate("small") == folder / "small/data"
    assert assets.faults(folder, assets.find("small").pin) == []


def test_locate_says_what_to_do(project):
    project.register()
    with pytest.raises(AssetError, match="asset 'small' is not fetched: run `make assets`"):
        assets.locate("small")
    with pytest.raises(AssetError, match=r"asset 'smal' is not in assets.toml; known: small"):
        assets.locate("smal")


def test_the_assets_folder_can_lie_elsewhere(project, monkeypatch, tmp_path_factory):
    folder = fetched(project)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    project.assets.rename(elsewhere / "big-disk")
    monkeypatch.setenv("READOUT_ASSETS", str(elsewhere / "big-disk"))
    assert (
        assets.locate("small") == elsewhere / "big-disk" / folder.relative_to(project.assets) / "small/data"
    )


@pytest.mark.parametrize("name", ["small/data/a.txt", "small/data/deep/b.txt"])
@pytest.mark.parametrize("at", [0, -1])
def test_one_flipped_byte_is_named(project, name, at):
    folder = fetched(project)
    content = bytearray((folder / name).read_bytes())
    content[at] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(AssetError, match=f"asset 'small': {name} has another sha256 than recorded: re-fetch"):
        assets.locate("small")


def test_any_flipped_byte_of_the_manifest_is_seen(project):
    folder = fetched(project)
    manifest, pin = folder / assets.MANIFEST, assets.find("small").pin
    intact = manifest.read_bytes()
    for at in range(0, len(intact) - 1, 7):
        flipped = bytearray(intact)
        flipped[at] ^= 1
        manifest.write_bytes(flipped)
        unchanged = _same_json(intact, flipped)
        assert unchanged or re.match(
            rf"{assets.MANIFEST} (is damaged|was changed)", assets.faults(folder, pin)[0]
        ), at


def _same_json(first, second):
    try:
        return json.loads(first) == json.loads(second)
    except ValueError:
        return False


def test_missing_and_foreign_files_are_named_too(project):
    folder = fetched(project)
    (folder / "small/data/a.txt").rename(folder / "small/data/pytorch_model.bin")
    assert assets.faults(folder, assets.find("small").pin) == [
        "small/data/a.txt is missing",
        "small/data/pytorch_model.bin does not belong there",
    ]
    with pytest.raises(AssetError, match=r"a.txt is missing \(and 1 more\)"):
        assets.locate("small")


def test_another_pin_in_the_registry_makes_what_lies_there_stale(project):
    folder = fetched(project)
    project.register(version="1.0", sha256="1" * 64)
    (fault,) = assets.faults(folder, assets.find("small").pin)
    assert (
        fault
        == f"it was fetched as small==1.0 sha256:{'0' * 64}, and assets.toml asks for small==1.0 sha256:{'1' * 64}"
    )


def test_the_manifest_digest_follows_content_pin_and_origin(project):
    folder = fetched(project)
    seen = {assets.manifest_digest(folder)}
    assets.write_manifest(folder, "another pin", {"licence": "MIT"})
    seen.add(assets.manifest_digest(folder))
    assets.write_manifest(folder, "another pin", {"licence": "BSD"})
    seen.add(assets.manifest_digest(folder))
    (folder / "small/data/a.txt").write_bytes(b"aleph")
    assets.write_manifest(folder, "another pin", {"licence": "BSD"})
    assert len(seen | {assets.manifest_digest(folder)}) == 4
    assert json.loads((folder / assets.MANIFEST).read_text())["files"]["small/data/a.txt"]["size"] == 5


@pytest.mark.assets
@pytest.mark.parametrize("id", ["all-minilm-l6-v2", "smollm2-135m-instruct", "sotu"])
def test_the_real_assets_are_intact(id):
    paths.root.cache_clear()
    assert any(assets.locate(id).iterdir())
