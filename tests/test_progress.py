"""A bar goes to the terminal that the runner names, to nowhere when silenced, and never to a notebook."""

import os
import pty

from readout.pipeline.kernel import environment
from readout.progress import TERMINAL, progress_bar


def _run(total=2):
    with progress_bar(total, what="states", unit="token") as bar:
        for _ in range(total):
            bar.update(1)


def test_bar_goes_to_the_named_terminal_only(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    terminal = tmp_path / "terminal"
    terminal.touch()
    monkeypatch.setenv(TERMINAL, str(terminal))
    _run()
    assert "states" in terminal.read_text()
    assert capfd.readouterr() == ("", "")


def test_silenced_bar_writes_nothing(monkeypatch, capfd):
    monkeypatch.delenv(TERMINAL, raising=False)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    _run()
    assert capfd.readouterr() == ("", "")


def test_runner_names_its_terminal_or_silences(tmp_path, monkeypatch):
    main, other = pty.openpty()
    try:
        assert environment(tmp_path, {}, stderr=other)[TERMINAL] == os.ttyname(other)
    finally:
        os.close(main)
        os.close(other)
    with (tmp_path / "file").open("w") as file:
        silent = environment(tmp_path, {}, stderr=file.fileno())
    assert silent["TQDM_DISABLE"] == "1"
    assert TERMINAL not in silent
