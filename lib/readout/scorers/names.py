"""Scorers by the names that parameters, tables and figures use."""

import re
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError
from readout.scorers.late import LateInteraction
from readout.scorers.mean import MeanPooling
from readout.scorers.patches import PatchLateInteraction
from readout.scorers.tokens import Tokens


@runtime_checkable
class Scorer(Protocol):
    """How two texts are compared; differentiable, whatever the padding."""

    def score(self, query: Tokens, key: Tokens) -> Float[Tensor, "query key"]:
        """Every query against every key; higher is more alike."""

    def terms(self, query: Tokens) -> Float[Tensor, " query"]:
        """How many cosines each query's scores sum; the temperature over it is the effective one.

        A sum of M cosines at temperature t has the softmax of their mean at t / M.
        """


_NAMED = {
    "mean": MeanPooling(),
    # The mix sits in the encoder; what it gives is pooled.
    "layerwise": MeanPooling(),
    "li": LateInteraction(),
    "li-mean": LateInteraction("mean"),
    "li-all": LateInteraction(skip_punctuation=False),
}


def scorer_of(name: str) -> Scorer:
    """The scorer of that name: mean, layerwise, li, li-mean, li-all, pli-N or pli-N-mean.

    Raises ParameterError, with these forms, for another.

    >>> scorer_of("pli-2")
    PatchLateInteraction(n=2, reduction='sum')
    """
    if name in _NAMED:
        return _NAMED[name]
    if patches := re.fullmatch(r"pli-([1-9]\d*)(-mean)?", name):
        return PatchLateInteraction(int(patches[1]), "mean" if patches[2] else "sum")
    raise ParameterError(f"scorer {name!r}: expected {', '.join(_NAMED)}, pli-N or pli-N-mean, such as pli-2")
