"""Where training has changed what a scorer needs: models stitched from two, and states taken before the end."""

from collections.abc import Iterator
from dataclasses import dataclass

from readout.authorship.gallery import Gallery
from readout.authorship.runs import Training
from readout.authorship.vectors import Vectors, read_exits, read_vectors
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
    one. An early exit applies the final norm and the head, if there is one, to the states of its layer. Each stitch is
    one forward pass over the gallery, all early exits together are one.
    """
    trained, base = training.encoder(name, seed), training.reader.model
    scorer, reading = training.plan.scorer(name), {"precision": training.precision, **reading}
    layers, read = range(trained.n_layers + 1), (training.reader.tokenizer, gallery.texts)

    def ranked(vectors: Vectors) -> PerQuery:
        return gallery.evaluate(gallery.scores(scorer, vectors))

    def joined(lower, upper, layer: int) -> PerQuery:
        encoder = Encoder(stitched(lower, upper, layer))
        encoder.head = trained.head
        return ranked(read_vectors(encoder, *read, **reading))

    with progress_bar(2 * len(layers) + 1, what=f"stitching {name}", unit="pass") as bar:
        exits = read_exits(trained, *read, layers, **reading)
        bar.update()
        for layer, left in zip(layers, exits, strict=True):
            yield Seam(PRETRAINED_BELOW, layer, joined(base, trained.backbone, layer))
            yield Seam(TRAINED_BELOW, layer, joined(trained.backbone, base, layer))
            yield Seam(EARLY_EXIT, layer, ranked(left))
            bar.update(2)
