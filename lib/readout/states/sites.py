"""Sites: the named places in a model's residual stream where states are read."""

from dataclasses import dataclass
from typing import Literal

from readout.errors import ParameterError

Norm = Literal["raw", "final"]
NORMS: tuple[Norm, ...] = ("raw", "final")


@dataclass(frozen=True, order=True)
class Site:
    """Where in the residual stream a state was taken, and whether the final norm was applied to it.

    layer: 0 is the input of the first block, l the output of block l, before any final norm.
    n_layers: L, the number of blocks.
    norm: "raw" is the residual stream itself, "final" the model's final norm applied to it. The normed site of
    layer l is what the model cut to its first l blocks would give out; at layer L it is Hugging Face's
    `last_hidden_state`. A model without a final norm (BERT, RoBERTa) has equal states at both.

    Sites sort by layer, then norm ("final" before "raw").

    Raises ParameterError for a layer outside 0..L or an unknown norm.

    >>> [Site(layer, 2).name for layer in (0, 1, 2)]
    ['embedding', 'block 1', 'block 2']
    >>> Site(2, 2, "final").name, Site(1, 2, "final").name, Site(1, 2).depth
    ('final', 'block 1, normed', 0.5)
    """

    layer: int
    n_layers: int
    norm: Norm = "raw"

    def __post_init__(self):
        if not 0 <= self.layer <= self.n_layers or self.n_layers < 1:
            raise ParameterError(f"layer: {self.layer} is not in 0..{self.n_layers} (0 is the embedding)")
        if self.norm not in NORMS:
            raise ParameterError(f"norm: {self.norm!r} is not one of {', '.join(NORMS)}")

    @property
    def name(self) -> str:
        """The site in the words of figures and tables."""
        place = "embedding" if self.layer == 0 else f"block {self.layer}"
        if self.norm == "raw":
            return place
        return "final" if self.layer == self.n_layers else f"{place}, normed"

    @property
    def depth(self) -> float:
        """Relative depth l / L, in [0, 1]."""
        return self.layer / self.n_layers
