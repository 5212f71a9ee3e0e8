"""How two texts are compared by their token vectors, and what is trained on top of a backbone to do so."""

from readout.scorers.head import Head
from readout.scorers.infonce import infonce_loss
from readout.scorers.late import LateInteraction
from readout.scorers.mean import MeanPooling
from readout.scorers.mix import ScalarMix
from readout.scorers.names import Scorer, scorer_of
from readout.scorers.patches import PatchLateInteraction
from readout.scorers.tokens import Tokens, skip_list

__all__ = [
    "Head",
    "LateInteraction",
    "MeanPooling",
    "PatchLateInteraction",
    "ScalarMix",
    "Scorer",
    "Tokens",
    "infonce_loss",
    "scorer_of",
    "skip_list",
]
