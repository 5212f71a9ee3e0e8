import errno
import importlib.metadata
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

import readout
from readout.errors import AssetError, ParameterError
from readout.sources import assets
from readout.sources import fetch as door

FETCH = [sys.executable, "-m", "readout.sources.fetch"]


@pytest.fixture
def environment():
    return os.environ | {"PYTHONPATH": str(Path(readout.__file__).parents[1])}


@pytest.fixture
def small(project):
    project.register(sha256=project.add_wheel())
    return project


def test_a_fetch_brings_the_registered_part_and_the_licence_and_nothing_else(small):
    summary = door.fetch("tiny")
    folder = small.assets / "packages/small-1.0"
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    licence = "small-1.0.dist-info/licenses/LICENSE"
    assert files == ["readout.json", licence, "small/data/a.txt", "small/data/deep/b.txt"]
    assert (assets.locate("small") / "deep/b.txt").read_bytes() == b"beta" * 1000
    assert summary == {"small": {"pin": assets.find("small").pin, "digest": assets.manifest_digest(folder)}}
    assert "small" not in [d.name for d in importlib.metadata.distributions()]


def test_after_a_fetch_nothing_needs_the_network(small, capsys):
    first = door.fetch("tiny")
    shutil.rmtree(small.wheels)
    assert door.fetch("tiny") == first
    assert "small: up to date" in capsys.readouterr().err


def test_two_fetches_from_nothing_write_the_same_summary(small):
    runner, written = CliRunner(), []
    for _ in range(2):
        assert runner.invoke(door.app, ["--profile", "tiny", "-o", "assets/tiny.json"]).exit_code == 0
        written.append((small.assets / "tiny.json").read_bytes())
        shutil.rmtree(small.assets)
    assert written[0] == written[1]
    assert list(json.loads(written[0])) == ["small"]


def test_a_profile_brings_only_its_own_assets(small):
    assert door.fetch("laptop") == {}
    assert small.left_over() == []
    with pytest.raises(ParameterError, match="profile is 'huge'; it must be one of tiny, laptop, paper"):
        door.fetch("huge")


def test_a_wheel_of_another_sha256_is_not_used(small):
    small.register(sha256="f" * 64)
    with pytest.raises(
        AssetError, match=r"asset 'small': small==1.0 has another sha256 than assets.toml records"
    ):
        door.fetch("tiny")
    assert small.left_over() == []


def test_a_wheel_that_cannot_be_had_is_one_line_that_says_what_to_do(small):
    small.register(version="9.9")
    with pytest.raises(
        AssetError, match=r"asset 'small': pip could not download small==9.9 .*check the network"
    ) as caught:
        door.fetch("tiny")
    assert "\n" not in str(caught.value)
    assert small.left_over() == []


def test_a_wheel_without_the_registered_path_is_refused(small):
    small.register(sha256=small.add_wheel(), path="small/elsewhere")
    with pytest.raises(AssetError, match=r"small-1.0-py3-none-any.whl holds nothing below small/elsewhere/"):
        door.fetch("tiny")
    assert small.left_over() == []


def test_a_damaged_asset_is_brought_anew(small, capsys):
    door.fetch("tiny")
    damaged = small.assets / "packages/small-1.0/small/data/a.txt"
    damaged.write_bytes(b"alphA")
    door.fetch("tiny")
    assert damaged.read_bytes() == b"alpha"
    assert "small: small/data/a.txt has another sha256 than recorded" in capsys.readouterr().err
    assert not list(small.assets.glob(".fetch-*"))


def test_a_new_pin_brings_the_new_wheel(small):
    door.fetch("tiny")
    small.register(version="1.1", sha256=small.add_wheel({"small/data/a.txt": b"omega"}, version="1.1"))
    door.fetch("tiny")
    assert (assets.locate("small") / "a.txt").read_bytes() == b"omega"


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("zipfile.ZipFile.extractall", FULL),
        ("readout.sources.fetch.write_manifest", FULL),
        ("os.replace", FULL),
        ("readout.sources.fetch.write_manifest", KeyboardInterrupt()),
    ],
)
def test_a_fetch_that_fails_at_any_step_leaves_nothing(small, monkeypatch, step, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(step, fail)
    with pytest.raises(KeyboardInterrupt if error is not FULL else AssetError):
        door.fetch("tiny")
    assert [name for name in small.left_over() if name != "packages"] == []


def test_a_full_disk_is_one_line(small, monkeypatch):
    def full(*_, **__):
        raise FULL

    monkeypatch.setattr("zipfile.ZipFile.extractall", full)
    ran = CliRunner().invoke(door.app, ["--profile", "tiny"])
    assert ran.exit_code == 1
    assert ran.stderr.splitlines()[-1].startswith("error: asset 'small' could not be written below")
    assert "No space left" in ran.stderr


def test_too_little_space_is_said_before_anything_is_brought(small, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1_400_000))
    with pytest.raises(AssetError, match=r"2 MB are needed for small, and .* has 1 MB free"):
        door.fetch("tiny")
    assert small.left_over() == []


@pytest.fixture
def silent_index(small, environment):
    """An index that accepts a connection and never answers, so that a fetch can be stopped in its middle."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        yield environment | {
            "PIP_NO_INDEX": "0",
            "PIP_FIND_LINKS": "",
            "PIP_INDEX_URL": index,
            "PIP_CONFIG_FILE": os.devnull,
        }


def stop_in_the_middle(project, environment, stop):
    ran = subprocess.Popen(
        [*FETCH, "--profile", "tiny"], env=environment, start_new_session=True, stderr=subprocess.PIPE
    )
    while not list(project.assets.glob(".fetch-*/requirement.txt")):
        assert ran.poll() is None, ran.stderr.read()
        time.sleep(0.02)
    stop(ran.pid)
    ran.communicate(timeout=120)
    return ran.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_fetch_leaves_nothing(small, silent_index, number):
    assert stop_in_the_middle(small, silent_index, lambda pid: os.killpg(pid, number)) != 0
    assert small.left_over() == []


def test_what_a_killed_fetch_leaves_is_never_taken_for_an_asset_and_is_removed_by_the_next(
    small, silent_index
):
    stop_in_the_middle(small, silent_index, lambda pid: os.killpg(pid, signal.SIGKILL))
    assert list(small.assets.glob(".fetch-*"))
    with pytest.raises(AssetError, match="not fetched"):
        assets.locate("small")
    door.fetch("tiny")
    assert assets.locate("small").is_dir()
    assert not list(small.assets.glob(".fetch-*"))


def test_a_second_fetch_waits_for_the_first(small, environment):
    small.assets.mkdir()
    with FileLock(small.assets / ".fetch.lock"):
        ran = subprocess.Popen(
            [*FETCH, "--profile", "tiny"], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert ran.stderr.readline() == "another fetch is running: waiting for it\n"
        assert not (small.assets / "packages").exists()
    assert "small: fetching (1 MB, MIT)" in ran.communicate(timeout=120)[1]
    assert ran.returncode == 0


def test_verify_names_each_bad_file_and_exits_with_1(small):
    runner = CliRunner()
    nothing = runner.invoke(door.app, ["verify"])
    assert (nothing.exit_code, "no asset is fetched" in nothing.stderr) == (1, True)
    door.fetch("tiny")
    fine = runner.invoke(door.app, ["verify"])
    assert (fine.exit_code, fine.stdout) == (0, "every fetched file is as recorded\n")
    folder = small.assets / "packages/small-1.0/small/data"
    (folder / "a.txt").write_bytes(b"alphA")
    (folder / "deep/b.txt").unlink()
    bad = runner.invoke(door.app, ["verify"])
    assert bad.exit_code == 1
    assert bad.stderr.splitlines()[:2] == [
        "small: small/data/deep/b.txt is missing",
        "small: small/data/a.txt has another sha256 than recorded",
    ]


def test_the_command_says_errors_in_one_line(small, environment):
    ran = subprocess.run([*FETCH, "--profile", "huge"], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        "error: profile is 'huge'; it must be one of tiny, laptop, paper\n",
    )


def test_the_command_starts_without_torch(environment):
    heavy = "{'torch', 'transformers', 'huggingface_hub'}"
    code = f"import sys, readout.sources.fetch; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
