"""From token states to one vector per text, and consumers that collect states while `read` runs."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from readout.errors import ParameterError, TextError
from readout.states.sites import Norm, Site

Pooling = Callable[[Tensor, Tensor], Tensor]


def masked_mean(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> Float[Tensor, "text dim"]:
    """The mean state over a text's real tokens, in float64; what stands in the padding is never read.

    Raises TextError for a row without a real token.

    >>> states = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [float("nan"), 9.0]]])
    >>> masked_mean(states, torch.tensor([[True, True, False]]))
    tensor([[2., 4.]], dtype=torch.float64)
    """
    _require_tokens(mask)
    sums = states.masked_fill(~mask[..., None], 0).sum(dim=1, dtype=torch.float64)
    return sums / mask.sum(dim=1, keepdim=True)


def first_token(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> Float[Tensor, "text dim"]:
    """The state of a text's first real token under any padding side, in the dtype of `states`.

    Raises TextError for a row without a real token.

    >>> first_token(torch.tensor([[[9.0], [1.0], [2.0]]]), torch.tensor([[False, True, True]]))
    tensor([[1.]])
    """
    _require_tokens(mask)
    return _take(states, mask.int().argmax(dim=1))


def last_token(
    states: Float[Tensor, "text token dim"], mask: Bool[Tensor, "text token"]
) -> Float[Tensor, "text dim"]:
    """The state of a text's last real token under any padding side, in the dtype of `states`.

    Raises TextError for a row without a real token.

    >>> last_token(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    _require_tokens(mask)
    return _take(states, mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1))


class Pool:
    """Collects one float32 vector per text and site while `read` runs.

    pooling: `masked_mean`, `first_token`, `last_token`, or any function of (states, mask) like them.
    Memory: 4 * sites * texts * dim bytes on the CPU, whatever the length of the texts; `states` makes a copy.

    >>> pool = Pool(masked_mean, n_texts=1)
    >>> states = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])
    >>> for layer in (0, 1):
    ...     pool.update(Site(layer, 1), states * (layer + 1), torch.tensor([[True, True]]), torch.tensor([0]))
    >>> pool.states()
    tensor([[[2., 4.]],
    <BLANKLINE>
            [[4., 8.]]])
    """

    def __init__(self, pooling: Pooling, n_texts: int):
        self.pooling = pooling
        self.n_texts = n_texts
        self._vectors: dict[Site, Tensor] = {}

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch at one site; `rows` are the positions of its texts."""
        if site not in self._vectors:
            self._vectors[site] = torch.full((self.n_texts, states.shape[-1]), torch.nan)
        self._vectors[site][rows] = self.pooling(states, mask).float().cpu()

    def sites(self, norm: Norm = "raw") -> list[Site]:
        """The sites seen under `norm`, in order of depth: the first axis of `states`."""
        return sorted(site for site in self._vectors if site.norm == norm)

    def states(self, norm: Norm = "raw") -> Float[Tensor, "site text dim"]:
        """The pooled states, in the order of `sites(norm)` and of the texts.

        Raises ParameterError where nothing was read under `norm`, and TextError where a text was not read.
        """
        sites = self.sites(norm)
        if not sites:
            raise ParameterError(f"norm: nothing was read under {norm!r}; give it to `read` in norms")
        states = torch.stack([self._vectors[site] for site in sites])
        _require_read(~states.isnan().any(dim=2).any(dim=0))
        return states


class KeepTokens:
    """Keeps every real token's state, in float32 on the CPU, while `read` runs.

    Memory: 4 * sites * tokens * dim bytes; 1,000 texts of 128 tokens at the 31 raw sites of a model of width 576
    are 9.1 GB. Prefer a consumer that keeps running sums.

    >>> keep = KeepTokens(n_texts=1)
    >>> keep.update(Site(0, 1), torch.tensor([[[1.0], [9.0]]]), torch.tensor([[True, False]]), torch.tensor([0]))
    >>> keep.states(Site(0, 1))
    [tensor([[1.]])]
    """

    def __init__(self, n_texts: int):
        self.n_texts = n_texts
        self._texts: dict[Site, dict[int, Tensor]] = {}

    def update(
        self,
        site: Site,
        states: Float[Tensor, "text token dim"],
        mask: Bool[Tensor, "text token"],
        rows: Int[Tensor, " text"],
    ) -> None:
        """Takes one batch at one site; `rows` are the positions of its texts."""
        kept = self._texts.setdefault(site, {})
        for row, text_states, real in zip(rows.tolist(), states, mask, strict=True):
            kept[row] = text_states[real].float().cpu()

    def states(self, site: Site) -> list[Float[Tensor, "token dim"]]:
        """The states of each text's real tokens at `site`, in the order of the texts.

        Raises ParameterError for a site that was not read, and TextError where a text was not read.
        """
        if site not in self._texts:
            raise ParameterError(
                f"site: {site.name} was not read; read were {[s.name for s in sorted(self._texts)]}"
            )
        kept = self._texts[site]
        _require_read(torch.tensor([row in kept for row in range(self.n_texts)]))
        return [kept[row] for row in range(self.n_texts)]


def _take(states: Float[Tensor, "text token dim"], token: Int[Tensor, " text"]) -> Float[Tensor, "text dim"]:
    return states[torch.arange(len(states), device=states.device), token]


def _require_tokens(mask: Bool[Tensor, "text token"]) -> None:
    empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise TextError(f"mask: row {empty[0]} has no real token; leave empty texts out")


def _require_read(done: Bool[Tensor, " text"]) -> None:
    if not done.all():
        missing = (~done).nonzero().flatten().tolist()
        raise TextError(
            f"text {missing[0]} was not read ({len(missing)} of {len(done)} missing); n_texts may be too high"
        )
