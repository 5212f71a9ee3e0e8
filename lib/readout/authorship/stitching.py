"""Where training has changed what a scorer needs: models stitched from two, and states taken before the end."""

from collections.abc import Iterator
from dataclasses import dataclass

from readout.authorship.gallery import Gallery
from readout.authorship.runs import Training
from readout.authorship.vectors import read_vectors
from readout.lenses.retrieval import PerQuery
from readout.progress import progress_bar
from readout.states.stitching import stitched
from readout.training import Encoder

PRETRAINED_BELOW = "pretrained below, trained above"
TRAINED_BELOW = "trained below, pretrained above"
EARLY_EXIT = "early exit"


@dataclass(frozen=True)
class Seam:
    """A gallery as ranked by a model with a seam at `layer`: the first so many blocks are the lower model's."""

    intervention: str
    layer: int
    per_query: PerQuery


def seams(training: Training, name: str, gallery: Gallery, *, seed: int = 0, **reading) -> Iterator[Seam]:
    """Every stitch of the pretrained and the trained encoder, both ways, and every early exit of the trained one.

    At layer 0 a stitch has the lower model's embeddings and all blocks of the upper one, at L all blocks of the lower
    one. An early exit applies the final norm and the head, if there is one, to the states of its layer. Each is one
    forward pass over the gallery.
    """
    trained, base = training.encoder(name, seed), training.reader.model
    scorer, reading = training.plan.scorer(name), {"precision": training.precision, **reading}

    def ranked(encoder: Encoder, exit_layer: int | None = None) -> PerQuery:
        vectors = read_vectors(
            encoder, training.reader.tokenizer, gallery.texts, exit_layer=exit_layer, **reading
        )
        return gallery.evaluate(gallery.scores(scorer, vectors))

    def joined(lower, upper, layer: int) -> Encoder:
        encoder = Encoder(stitched(lower, upper, layer))
        encoder.head = trained.head
        return encoder

    with progress_bar(3 * (trained.n_layers + 1), what=f"stitching {name}", unit="model") as bar:
        for layer in range(trained.n_layers + 1):
            yield Seam(PRETRAINED_BELOW, layer, ranked(joined(base, trained.backbone, layer)))
            yield Seam(TRAINED_BELOW, layer, ranked(joined(trained.backbone, base, layer)))
            yield Seam(EARLY_EXIT, layer, ranked(trained, layer))
            bar.update(3)
