"""A small project of its own for each test: a library, a parameter file, and notebooks made on the spot."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest

import readout

INSTALLED = Path(readout.__file__).parents[1]
PARAMETERS = "n: int = 2  # texts; >= 1\nplot: bool = True\nlayers: list[int] = [0]\nrate: float = 0.1"
PID = "import os\nfrom pathlib import Path\n_ = Path('pid').write_text(str(os.getpid()))"


@dataclass(frozen=True)
class Project:
    path: Path
    started: list = field(default_factory=list)

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def notebook(self, name, *cells, tagged_done=True):
        """A notebook of a parameters cell, one that leaves the kernel's pid, the given ones, and a last one."""
        notebook = nbformat.v4.new_notebook()
        last = [PID, *cells, "print('end')"]
        tags = [["parameters"], *([[]] * (len(last) - 1)), ["done"] if tagged_done else []]
        for n, (code, tag) in enumerate(zip([PARAMETERS, *last], tags, strict=True)):
            notebook.cells.append(
                nbformat.v4.new_code_cell(code, id=f"id-{n}", metadata={"tags": tag} if tag else {})
            )
        file = self.path / "notebooks" / "axis" / f"{name}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, file)
        return file

    def start(self, module, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", f"readout.pipeline.{module}", *map(str, arguments)],
            cwd=self.path,
            env=os.environ | {"PYTHONPATH": str(INSTALLED)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell that starts the tests in the background makes them, and so the runner, ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.started.append(process)
        return process

    def command(self, module, *arguments):
        process = self.start(module, *arguments)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def kernel_pid(self, name="pid"):
        """Of the kernel that a notebook is running in, once a cell has left it in the file."""
        file = self.path / name
        for _ in range(600):
            if file.is_file() and file.read_text():
                return int(file.read_text())
            time.sleep(0.05)
        raise AssertionError("no kernel started")


def lives(pid):
    """Whether the process is there and is not only waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def dies():
    """A check that a process ends, on its own, soon."""

    def check(pid):
        for _ in range(100):
            if not lives(pid):
                return True
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        return False

    return check


@pytest.fixture
def make_project():
    started = []

    def make(path):
        project = Project(path, started)
        project.write("dvc.yaml", "")
        project.write("lib/readout/__init__.py", "WHERE = 'project'\n")
        project.write("params.yaml", "toy:\n  tiny: {n: 3, plot: false, layers: [1, 2], rate: 1e-3}\n")
        return project

    yield make
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def project(make_project, tmp_path):
    return make_project(tmp_path)
