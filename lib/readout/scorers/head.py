"""The head that the paper puts on every token before it is compared."""

from jaxtyping import Float
from torch import Tensor, nn


class Head(nn.Module):
    """Dropout, linear to `hidden` (four times as wide by default), ReLU, linear back; the same on every token.

    >>> import torch
    >>> Head(4)(torch.zeros(1, 2, 4)).shape
    torch.Size([1, 2, 4])
    """

    def __init__(self, dim: int, hidden: int | None = None, dropout: float = 0.1):
        super().__init__()
        wide = 4 * dim if hidden is None else hidden
        self.layers = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(dim, wide), nn.ReLU(), nn.Linear(wide, dim)
        )

    def forward(self, states: Float[Tensor, "*any dim"]) -> Float[Tensor, "*any dim"]:
        """The vectors that are compared."""
        return self.layers(states)
