import subprocess

import torch

from readout.pipeline import record


def test_the_commit_is_git_s_own_and_none_where_there_is_none(tmp_path):
    assert record.git_commit(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert record.git_commit(tmp_path) is None
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    head = subprocess.run(
        [*git, "log", "-1", "--format=%H"], capture_output=True, text=True, check=True
    ).stdout
    assert record.git_commit(tmp_path) == head.strip()


def test_the_versions_are_those_that_the_packages_state():
    assert record.versions()["torch"] == torch.__version__


def test_peak_memory_is_in_bytes():
    subprocess.run(["python3", "-c", "bytearray(200 * 2**20)"], check=True)
    assert record.peak_memory_bytes() > 200 * 2**20
