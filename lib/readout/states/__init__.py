"""Hidden states of transformers models at named sites of the residual stream."""

from readout.states.pooling import KeepTokens, Pool, first_token, last_token, masked_mean
from readout.states.read import Consumer, Reading, read, resolve_precision
from readout.states.sites import Norm, Site
from readout.states.stream import ResidualStream, forward

__all__ = [
    "Consumer",
    "KeepTokens",
    "Norm",
    "Pool",
    "Reading",
    "ResidualStream",
    "Site",
    "first_token",
    "forward",
    "last_token",
    "masked_mean",
    "read",
    "resolve_precision",
]
