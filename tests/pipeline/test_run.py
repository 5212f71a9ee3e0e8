"""The runner as a user meets it: real kernels, exit statuses, messages, and what is left on disk."""

import json
import os
import signal
import sys

import pytest

WHERE = "import sys, readout\nprint(n, plot, layers, rate)\nprint(readout.WHERE, readout.__file__, sys.executable)"
NOISE = "import warnings\nwarnings.warn('w')\nprint('e', file=sys.stderr)\nobject()"
CONFIG = ("--config", "params.yaml:toy.tiny")


def one_line(text):
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    return text.removeprefix("error: ").rstrip("\n")


def last_line(text):
    """Of a run that had begun: a kernel that dies may have said something before."""
    return one_line(text.splitlines()[-1] + "\n")


def printed(path):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(out["text"]) for cell in cells for out in cell["outputs"] if out.get("name") == "stdout"]


def test_two_checkouts_write_the_same_bytes_and_each_runs_its_own_library(make_project, tmp_path):
    written = []
    for folder in ("one", "two/deeper"):
        project = make_project(tmp_path / folder)
        toy = project.notebook("toy", WHERE, NOISE)
        done = project.command(
            "run", toy, "-o", "out/toy.ipynb", *CONFIG, "--set", "n=5", "--record", "out/toy.json"
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("toy -> out/toy.ipynb (")
        assert done.stderr.count("\n") == 1
        written.append((project.path / "out" / "toy.ipynb").read_bytes())
        assert sorted(file.name for file in (project.path / "out").iterdir()) == ["toy.ipynb", "toy.json"]
    assert written[0] == written[1]
    # `python -m` found the installed library first; the kernel must not.
    values, where, end = "".join(printed(project.path / "out" / "toy.ipynb")).splitlines()
    assert values == "5 False [1, 2] 0.001"
    assert where.startswith("project ./lib/readout/__init__.py $PREFIX")
    assert end == "end"
    record = json.loads((project.path / "out" / "toy.json").read_text())
    assert record["parameters"] == {"n": 5, "plot": False, "layers": [1, 2], "rate": 0.001}
    assert record["fingerprint"]["modules"].keys() == {"readout"}
    assert record["notebook"] == "notebooks/axis/toy.ipynb"
    assert record["peak_memory_bytes"] > 30e6
    assert str(tmp_path) not in json.dumps(record)


def test_refreshing_in_place_injects_nothing_and_the_second_time_changes_nothing(project):
    toy = project.notebook("toy", WHERE)
    assert project.command("run", toy, "-o", toy).returncode == 0
    first = toy.read_bytes()
    assert b"injected" not in first
    assert printed(toy)[0].startswith("2 True [0] 0.1\n")
    assert project.command("run", toy, "-o", toy).returncode == 0
    assert toy.read_bytes() == first
    assert os.listdir(toy.parent) == ["toy.ipynb"]
    refused = project.command("run", toy, "-o", toy, *CONFIG)
    assert (refused.returncode, toy.read_bytes()) == (2, first)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("raise FileNotFoundError('/no\\nmore')", "failed in cell In[3]: FileNotFoundError: /no"),
        ("import sys; sys.exit(0)", "stopped in cell In[3]: SystemExit: 0"),
        ("import sys; sys.exit(3)", "failed in cell In[3]: SystemExit: 3"),
        ("os._exit(0)", "failed in cell In[3]: the kernel died (killed or out of memory)"),
        ("os.kill(os.getpid(), 9)", "failed in cell In[3]: the kernel died (killed or out of memory)"),
    ],
)
def test_a_run_that_does_not_reach_its_end_fails_and_leaves_the_old_result(project, dies, cell, message):
    toy = project.notebook("toy", cell)
    old = project.write("out/toy.ipynb", "old")
    done = project.command("run", toy, "-o", old, "--record", "out/toy.json")
    assert done.returncode == 1
    assert last_line(done.stderr) == f"toy {message}; see results/failed/toy.ipynb"
    assert os.listdir(old.parent) == ["toy.ipynb"]
    assert old.read_text() == "old"
    assert json.loads((project.path / "results" / "failed" / "toy.ipynb").read_text())["cells"]
    assert dies(project.kernel_pid())


@pytest.mark.parametrize(
    ("how", "status", "word"), [("group", 130, "interrupted"), ("runner", 143, "terminated")]
)
def test_a_signal_stops_the_kernel_too(project, dies, how, status, word):
    toy = project.notebook("toy", "import time\ntime.sleep(300)")
    runner = project.start("run", toy, "-o", "out/toy.ipynb")
    kernel = project.kernel_pid()
    second = project.command("run", toy, "-o", "out/../out/toy.ipynb")
    assert second.returncode == 2
    assert "another run is writing" in one_line(second.stderr)
    if how == "group":
        os.killpg(runner.pid, signal.SIGINT)
    else:
        runner.terminate()
    stderr = runner.communicate(timeout=30)[1]
    assert runner.returncode == status
    assert last_line(stderr) == f"toy {word}; see results/failed/toy.ipynb"
    assert dies(kernel)
    assert os.listdir(project.path / "out") == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process that holds the interpreter")
def test_a_killed_runner_takes_a_busy_kernel_with_it(project, dies):
    # The sum holds the interpreter, so the kernel's own look for its parent never gets a turn.
    toy = project.notebook("toy", "Path('pid').rename('busy')\nsum(range(10**12))")
    runner = project.start("run", toy, "-o", "out/toy.ipynb")
    kernel = project.kernel_pid("busy")
    runner.kill()
    assert dies(kernel)
    runner.communicate(timeout=30)
    assert not (project.path / "out" / "toy.ipynb").exists()


def test_editing_the_code_during_the_run_makes_it_fail(project):
    edit = "p = Path('notebooks/axis/toy.ipynb')\np.write_text(p.read_text().replace('end', 'END'))"
    library = "Path('lib/readout/__init__.py').write_text('WHERE = 1')"
    toy = project.notebook("toy", "import readout", edit, library)
    done = project.command("run", toy, "-o", "out/toy.ipynb")
    assert done.returncode == 1
    assert "was edited while it ran" in last_line(done.stderr)
    assert "code cell 6 changed, module readout changed" in done.stderr
    assert os.listdir(project.path / "out") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "m=3"), "m = 3: unknown parameter"),
        (("--set", "n=0"), "n = 0: out of range; expected >= 1"),
        (("--config", "params.yaml:toy.huge"), "no section 'huge'; known here: tiny"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_made(project, arguments, message):
    toy = project.notebook("toy")
    before = sorted(project.path.rglob("*"))
    done = project.command("run", toy, "-o", "out/toy.ipynb", *arguments)
    assert done.returncode == 2
    assert message in one_line(done.stderr)
    assert sorted(project.path.rglob("*")) == before


def test_a_notebook_that_cannot_tell_its_end_is_refused(project):
    toy = project.notebook("toy", tagged_done=False)
    done = project.command("run", toy, "-o", "out/toy.ipynb")
    assert (done.returncode, one_line(done.stderr)) == (
        2,
        f"{toy}: expected the tag `done` on the last code cell",
    )


def test_code_edited_since_its_fingerprint_is_refused(project):
    """DVC files results under the fingerprint it saw; other code must not run under that name."""
    notebook = project.notebook("study")
    project.command("fingerprint", notebook, "-o", "code.json")
    notebook.write_text(notebook.read_text().replace("print('end')", "print('another end')"))
    done = project.command("run", notebook, "-o", "out.ipynb", "--expect", "code.json")
    assert done.returncode == 2
    assert "edited since code.json" in last_line(done.stderr)
    assert not (project.path / "out.ipynb").exists()
