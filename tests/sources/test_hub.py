"""The hub is played by a server on this machine that answers the few routes a download uses."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

import readout
from readout.sources import assets

COMMIT, LATER = "a" * 40, "b" * 40
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": b"weights" * 100,
    "tokenizer.json": b"{}",
    "README.md": b"a card",
    "pytorch_model.bin": b"a pickle",
    "modeling_evil.py": b"import os",
    "onnx/config.json": b"{}",
    "tokenised/train-00000-of-00002.parquet": b"rows",
    "tokenised/train-00001-of-00002.parquet": b"more rows",
    "tokenised/test-00000-of-00001.parquet": b"rows to test on",
    "raw-tokenised/train-00000-of-00001.parquet": b"rows of another configuration",
}


class Hub(BaseHTTPRequestHandler):
    """Repository `org/name`, whose main branch is at `server.head`; `server.status` answers every call."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlparse(self.path).path)
        self.server.asked.append(path)
        if self.server.status != 200:
            code = {"X-Error-Code": "GatedRepo"} if self.server.status == 403 else {}
            self.answer(b"{}", {"X-Error-Message": "no"} | code, self.server.status)
        elif "/resolve/" in path:
            content = FILES[path.split("/resolve/")[1].split("/", 1)[1]]
            self.answer(
                content, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            )
        elif "/tree/" in path:
            self.answer(json.dumps([self.entry(name) for name in FILES]).encode())
        else:
            self.answer(json.dumps({"id": "org/name", "sha": self.commit(path), "siblings": []}).encode())

    def commit(self, path):
        return path.rsplit("/", 1)[1] if "/revision/" in path else self.server.head

    def entry(self, name):
        entry = {"type": "file", "path": name, "size": len(FILES[name]), "oid": "0" * 40}
        if name == "model.safetensors":
            entry["lfs"] = {"oid": self.server.lfs_oid, "size": len(FILES[name]), "pointerSize": 100}
        return entry

    def answer(self, body, headers=None, status=200):
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.head, server.status, server.asked = COMMIT, 200, []
    server.lfs_oid = hashlib.sha256(FILES["model.safetensors"]).hexdigest()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(project, hub):
    """Register the repository at a revision, run the command, and return what it did."""
    environment = os.environ | {
        "PYTHONPATH": str(Path(readout.__file__).parents[1]),
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(project.root / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }

    def run(revision=None, **changes):
        fields = {"source": "hub", "kind": "model", "repo": "org/name", "revision": revision}
        fields |= {"package": None, "version": None, "sha256": None, "path": None}
        project.register(**(fields | changes))
        command = [sys.executable, "-m", "readout.sources.fetch", "--profile", "tiny"]
        return subprocess.run(command, env=environment | {"NO_PROXY": "*"}, capture_output=True, text=True)

    return run


def brought(project):
    folder = project.assets / "hub/org--name"
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_pinned_commit_brings_safetensors_and_text_files_only(project, fetch, hub):
    ran = fetch(COMMIT)
    assert ran.returncode == 0, ran.stderr
    assert brought(project) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "readout.json",
        "tokenizer.json",
    ]
    assert (assets.locate("small") / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert not (project.root / "assets.lock.toml").exists()
    assert all(COMMIT in path for path in hub.asked if "/tree/" in path or "/resolve/" in path)


def test_a_commit_is_recorded_at_the_first_fetch_and_enforced_after(project, fetch, hub):
    assert fetch().returncode == 0
    assert (project.root / "assets.lock.toml").read_text() == f'"small" = "{COMMIT}"\n'
    hub.head = LATER
    damaged = assets.locate("small") / "config.json"
    damaged.write_bytes(b"{}")
    assert fetch().returncode == 0
    assert damaged.read_bytes() == FILES["config.json"]
    assert not any(LATER in path for path in hub.asked)


def test_after_a_fetch_the_hub_is_not_asked(fetch, hub):
    fetch(COMMIT)
    hub.asked.clear()
    hub.status = 500
    assert fetch(COMMIT).returncode == 0
    assert hub.asked == []


def test_a_data_set_is_taken_from_one_folder(project, fetch):
    assert fetch(COMMIT, kind="data", path="onnx").returncode == 0
    assert assets.locate("small") == project.assets / "hub/org--name/onnx"
    assert brought(project) == ["onnx/config.json", "readout.json"]


def test_a_data_set_is_one_split_of_one_configuration_where_the_registry_says_so(project, fetch):
    ran = fetch(COMMIT, kind="data", path="tokenised", files="train-*.parquet")
    assert ran.returncode == 0, ran.stderr
    train = [f"tokenised/train-0000{i}-of-00002.parquet" for i in range(2)]
    assert brought(project) == ["readout.json", *train]
    assert sorted(p.name for p in assets.locate("small").iterdir()) == [Path(p).name for p in train]
    assert fetch(COMMIT, kind="data", path="raw-tokenised").returncode == 0
    assert brought(project) == ["raw-tokenised/train-00000-of-00001.parquet", "readout.json"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_repository_names_the_page_to_open(project, fetch, hub, status):
    hub.status = status
    ran = fetch(COMMIT)
    assert ran.returncode == 1
    line = ran.stderr.splitlines()[-1]
    assert f"open http://127.0.0.1:{hub.server_port}/org/name, accept its conditions" in line
    assert "hf auth login" in line
    assert "Traceback" not in ran.stderr
    assert project.left_over() == []


def test_a_hub_that_cannot_be_reached_is_one_line(project, fetch, hub):
    hub.server_close()
    ran = fetch(COMMIT)
    assert ran.returncode == 1
    assert "check the network, then fetch again" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert project.left_over() == []


def test_weights_of_another_sha256_than_the_hub_lists_are_refused(project, fetch, hub):
    hub.lfs_oid = "0" * 64
    ran = fetch(COMMIT)
    assert ran.returncode == 1
    assert "model.safetensors arrived damaged: fetch again" in ran.stderr
    assert project.left_over() == []
