"""The baseline for protein features: how often each amino acid occurs, which knows nothing of order or fold."""

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from readout.errors import TextError, TooFewError

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


def composition(sequences: Sequence[str]) -> Float64[Tensor, "chain 20"]:
    """The share of each of the 20 amino acids in each sequence, in the alphabetic order of their letters.

    Each row sums to 1; other letters, such as X for an unknown residue, do not count. Raises TooFewError for no
    sequence, TextError that names the row where a sequence has none of the 20 letters.

    >>> composition(["AAC", "CXC"])[:, :3]
    tensor([[0.6667, 0.3333, 0.0000],
            [0.0000, 1.0000, 0.0000]], dtype=torch.float64)
    """
    if not sequences:
        raise TooFewError("sequences is empty; at least one is needed")
    rows = [[sequence.count(letter) for letter in AMINO_ACIDS] for sequence in sequences]
    counts = torch.tensor(rows, dtype=torch.float64)
    totals = counts.sum(1, keepdim=True)
    if (totals == 0).any():
        row = int((totals[:, 0] == 0).nonzero()[0])
        raise TextError(f"sequence {row} is {sequences[row]!r}; it needs a letter of {AMINO_ACIDS}")
    return counts / totals
