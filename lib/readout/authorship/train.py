"""Train the scorers of a profile ahead of its notebooks, on as many processes as there are.

    accelerate launch -m readout.authorship.train params.yaml:train_scorers.paper

The runs land where the notebooks look for them, so `dvc repro` then finds them trained. One process a GPU; a batch is
dealt out among them, and every query still sees all candidates.
"""

from typing import Annotated

import typer

from readout.authorship.runs import Plan, Training
from readout.errors import ReadoutError
from readout.pipeline.settings import section


def main(config: Annotated[str, typer.Argument(help="FILE:SECTION with the dials of train_scorers")]) -> None:
    """Train every run of the plan in CONFIG that is not trained yet."""
    try:
        dials = {name: value for name, value in section(config).items() if name in Plan.__dataclass_fields__}
        training = Training(Plan(**dials))
        for name, seed in training.plan.runs():
            kept = training.train(name, seed)
            if training.accelerator.is_main_process:
                typer.echo(f"{name}, seed {seed}: {kept.folder.name}, last loss {kept.losses[-1]:.3f}")
    except ReadoutError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
