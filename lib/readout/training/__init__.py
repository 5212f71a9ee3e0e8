"""Training: scorers by InfoNCE, through one loop that serves any objective."""

from readout.training.batches import TripletBatches
from readout.training.checkpoints import Checkpoints
from readout.training.contrastive import Contrastive
from readout.training.encoder import Encoder
from readout.training.loop import Objective, Schedule, fit

__all__ = [
    "Checkpoints",
    "Contrastive",
    "Encoder",
    "Objective",
    "Schedule",
    "TripletBatches",
    "fit",
]
