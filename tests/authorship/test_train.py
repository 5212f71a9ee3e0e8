"""The command that trains ahead of the notebooks."""

from pathlib import Path

from typer.testing import CliRunner

from readout.authorship import train

ROOT = Path(__file__).resolve().parents[2]


def run(section):
    app = train.typer.Typer()
    app.command()(train.main)
    return CliRunner().invoke(app, [f"{ROOT}/params.yaml:{section}"])


def test_a_section_that_is_not_there_is_one_line_and_no_training():
    result = run("train_scorers.huge")
    assert result.exit_code == 2
    assert "error: " in result.output
    assert "tiny, laptop, paper" in result.output
    assert result.output.count("\n") == 1


def test_every_run_of_the_plan_is_trained_and_named(monkeypatch):
    trained = []

    class Kept:
        folder, losses = Path("0123"), [3.0, 2.5]

    monkeypatch.setattr(train.Training, "__init__", lambda self, plan: self.__dict__.update(plan=plan))
    monkeypatch.setattr(
        train.Training, "train", lambda self, name, seed: trained.append((name, seed)) or Kept
    )
    monkeypatch.setattr(
        train.Training, "accelerator", type("One", (), {"is_main_process": True}), raising=False
    )
    result = run("train_scorers.laptop")
    assert result.exit_code == 0, result.output
    assert ("pli-2", 2) in trained
    assert ("mean@0.05", 0) in trained
    assert len(trained) == 20
    assert result.output.count("0123, last loss 2.500") == 20
