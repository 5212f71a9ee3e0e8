"""Backbones in, states of each residue out: the encoder of ProteinMPNN (Dauparas et al. 2022, vanilla v_48_020).

Each residue looks at the 48 whose CA atoms lie nearest. An edge is made of 25 distances between the atoms N, CA, C,
O and a virtual CB of the two residues, each as 16 radial basis functions, and of how far apart they stand in the
chain. Three layers of messages give each residue 128 numbers. It sees no side chain and no name of an amino acid,
so a text about the protein can agree with it only by way of the fold.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, one_hot
from torch.nn.utils.rnn import pad_sequence

from readout.errors import AssetError, ParameterError, TooFewError
from readout.progress import progress_bar
from readout.sources.assets import locate

DIM = 128
NEIGHBOURS = 48
FAR = 32

_LAYERS = 3
# The sum of the messages is divided by it, a constant near the number of neighbours, and not by their number.
_SCALE = 30.0
_N_RBF = 16
_N_POSITIONAL = 16
_ATOMS = ("N", "CA", "C", "O", "CB")
_MIXED = ["CA-N", "CA-C", "CA-O", "CA-CB", "N-C", "N-O", "N-CB", "CB-C", "CB-O", "O-C"]
_PAIRS = [
    *(("CA", "CA"), ("N", "N"), ("C", "C"), ("O", "O"), ("CB", "CB")),
    *(tuple(pair.split("-")) for pair in _MIXED),
    *(tuple(reversed(pair.split("-"))) for pair in _MIXED),
]
_DECODER = ("W_s.", "W_out.", "decoder_layers.")


def structure_features(
    backbones: Sequence[Float[Tensor, "_ 4 3"]],
    encoder: str | Path = "proteinmpnn",
    *,
    batch_size: int = 1,
    progress: bool = False,
) -> Float[Tensor, "chain 128"]:
    """One vector a chain, in order: the mean of the states of its resolved residues, in float32.

    Arguments and errors as `residue_states` has them.
    """
    states = residue_states(backbones, encoder, batch_size=batch_size, progress=progress)
    return torch.stack([of_chain.mean(0) for of_chain in states])


def residue_states(
    backbones: Sequence[Float[Tensor, "_ 4 3"]],
    encoder: str | Path = "proteinmpnn",
    *,
    batch_size: int = 1,
    progress: bool = False,
) -> list[Float[Tensor, "_ 128"]]:
    """The final encoder states of the resolved residues of each chain, in float32 and in order of the residues.

    backbones: coordinates of N, CA, C and O in ångström, a row a residue; NaN in a row that is not resolved, which
    counts as a place in the chain and gets no state. Chains are padded to the longest of a batch by such rows, so
    batches change no state beyond rounding; nor does turning or moving a chain. On a CPU single chains are the
    fastest. encoder: an asset, or a folder
    (a `Path`) with the converted checkpoint. Time and memory grow as residues times 48, the search for neighbours
    as residues squared.

    Raises TooFewError for no chain, ParameterError for a batch size below 1 or a backbone of another shape or
    without any resolved residue, AssetError where the encoder is not fetched or not whole.
    """
    if not backbones:
        raise TooFewError("backbones is empty; at least one chain is needed")
    if batch_size < 1:
        raise ParameterError(f"batch_size is {batch_size}; it must be at least 1")
    for i, backbone in enumerate(backbones):
        _check(i, backbone)
    model = load_encoder(locate(encoder) if isinstance(encoder, str) else encoder)
    states = []
    with progress_bar(len(backbones), what="structures", unit="chain", shown=progress) as bar:
        for at in range(0, len(backbones), batch_size):
            batch = [backbone.float() for backbone in backbones[at : at + batch_size]]
            padded = pad_sequence(batch, batch_first=True, padding_value=torch.nan)
            with torch.inference_mode():
                encoded = model(padded)
            states += [chain[there].clone() for chain, there in zip(encoded, resolved(padded), strict=True)]
            bar.update(len(batch))
    return states


def load_encoder(folder: Path) -> "Encoder":
    """The encoder with the weights of a folder, in evaluation mode; the decoder's weights are left aside.

    Raises AssetError where a weight of the encoder is missing, unknown or of another shape.
    """
    # fork_rng: the initial weights are drawn, and would move the caller's random state.
    with torch.random.fork_rng(devices=[]):
        model = Encoder()
    try:
        weights = load_file(folder / "model.safetensors")
        model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(_DECODER)})
    except (OSError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise AssetError(f"'{folder}' holds no weights of ProteinMPNN's encoder: {reason}") from None
    return model.eval()


def resolved(backbones: Float[Tensor, "*chain residue 4 3"]) -> Bool[Tensor, "*chain residue"]:
    """Which rows have all four atoms.

    >>> resolved(torch.tensor([0.0, torch.nan]).reshape(2, 1, 1).expand(2, 4, 3))
    tensor([ True, False])
    """
    return backbones.isfinite().all(-1).all(-1)


def virtual_cb(backbone: Float[Tensor, "*residue 4 3"]) -> Float[Tensor, "*residue 3"]:
    """Where the CB atom of an ideal residue would lie, glycine included.

    CB = CA - 0.58273431 (b x c) + 0.56802827 b - 0.54067466 c with b = CA - N and c = C - CA, in ångström.

    >>> n, ca, c = [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    >>> virtual_cb(torch.tensor([[n, ca, c, c]]))
    tensor([[ 0.5680, -0.5407, -0.5827]])
    """
    n, ca, c, _ = backbone.unbind(-2)
    b, c = ca - n, c - ca
    return -0.58273431 * torch.linalg.cross(b, c) + 0.56802827 * b - 0.54067466 * c + ca


def radial_basis(distances: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape 16"]:
    """exp(-((d - m) / 1.25)^2) at 16 centres m from 2 to 22 ångström.

    >>> radial_basis(torch.tensor(2.0))[:2]
    tensor([1.0000, 0.3205])
    """
    centres = torch.linspace(2, 22, _N_RBF, dtype=distances.dtype, device=distances.device)
    return torch.exp(-(((distances[..., None] - centres) / (20 / _N_RBF)) ** 2))


class Encoder(nn.Module):
    """The encoder's three layers over the graph of nearest residues; its parameters are named as in the checkpoint."""

    def __init__(self):
        super().__init__()
        positions = nn.ModuleDict({"linear": nn.Linear(2 * FAR + 2, _N_POSITIONAL)})
        edge = nn.Linear(_N_POSITIONAL + _N_RBF * len(_PAIRS), DIM, bias=False)
        self.features = nn.ModuleDict(
            {"embeddings": positions, "edge_embedding": edge, "norm_edges": nn.LayerNorm(DIM)}
        )
        self.W_e = nn.Linear(DIM, DIM)
        self.encoder_layers = nn.ModuleList([Layer() for _ in range(_LAYERS)])

    def forward(self, backbones: Float[Tensor, "chain residue 4 3"]) -> Float[Tensor, "chain residue 128"]:
        """States of every row, in the type of the weights; zeros where a row is not resolved."""
        there = resolved(backbones)
        atoms = backbones.masked_fill(~there[..., None, None], 0)
        near = neighbours(atoms[:, :, 1], there)
        edges = self.W_e(self._edges(atoms, near))
        attended = (there[..., None] & _of_neighbours(there[..., None], near).squeeze(-1))[..., None]
        states = edges.new_zeros(*there.shape, DIM)
        for layer in self.encoder_layers:
            states, edges = layer(states, edges, near, there[..., None], attended)
        return states

    def _edges(
        self, atoms: Float[Tensor, "chain residue 4 3"], near: Int[Tensor, "chain residue near"]
    ) -> Float[Tensor, "chain residue near 128"]:
        five = torch.cat([atoms, virtual_cb(atoms)[:, :, None]], 2)
        theirs = _of_neighbours(five.flatten(2), near).unflatten(-1, (5, 3))
        ours, others = ([_ATOMS.index(pair[side]) for pair in _PAIRS] for side in (0, 1))
        apart = five[:, :, None, ours] - theirs[:, :, :, others]
        distances = (apart.square().sum(-1) + 1e-6).sqrt()
        places = torch.arange(near.shape[1], device=near.device)[:, None] - near
        # The last class stands for a residue of another chain, and a backbone here is one chain.
        classes = one_hot(places.clamp(-FAR, FAR) + FAR, 2 * FAR + 2).to(atoms.dtype)
        placed = self.features["embeddings"]["linear"](classes)
        edges = torch.cat([placed, radial_basis(distances).flatten(-2)], -1)
        return self.features["norm_edges"](self.features["edge_embedding"](edges))


class Layer(nn.Module):
    """One layer: messages along the edges renew the residues, then the residues renew the edges."""

    def __init__(self):
        super().__init__()
        for name in ("W1", "W11"):
            setattr(self, name, nn.Linear(3 * DIM, DIM))
        for name in ("W2", "W3", "W12", "W13"):
            setattr(self, name, nn.Linear(DIM, DIM))
        for name in ("norm1", "norm2", "norm3"):
            setattr(self, name, nn.LayerNorm(DIM))
        self.dense = nn.ModuleDict({"W_in": nn.Linear(DIM, 4 * DIM), "W_out": nn.Linear(4 * DIM, DIM)})

    def forward(
        self,
        states: Float[Tensor, "chain residue 128"],
        edges: Float[Tensor, "chain residue near 128"],
        near: Int[Tensor, "chain residue near"],
        there: Bool[Tensor, "chain residue 1"],
        attended: Bool[Tensor, "chain residue near 1"],
    ) -> tuple[Float[Tensor, "chain residue 128"], Float[Tensor, "chain residue near 128"]]:
        """The new states and the new edges; rows that are not there send nothing and stay zero."""
        messages = self.W3(gelu(self.W2(gelu(self.W1(_joined(states, edges, near))))))
        states = self.norm1(states + (messages * attended).sum(-2) / _SCALE)
        states = self.norm2(states + self.dense["W_out"](gelu(self.dense["W_in"](states)))) * there
        messages = self.W13(gelu(self.W12(gelu(self.W11(_joined(states, edges, near))))))
        return states, self.norm3(edges + messages)


def neighbours(
    ca: Float[Tensor, "chain residue 3"], there: Bool[Tensor, "chain residue"], k: int = NEIGHBOURS
) -> Int[Tensor, "chain residue near"]:
    """Rows of the k nearest residues by CA, nearest first and itself among them; fewer where a chain is shorter.

    >>> ca = torch.tensor([[[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [4.0, 0.0, 0.0]]])
    >>> neighbours(ca, torch.tensor([[True, True, True]]), k=2)
    tensor([[[0, 1],
             [1, 2],
             [2, 1]]])
    """
    distances = (ca[:, :, None] - ca[:, None]).square().sum(-1)
    distances = distances.masked_fill(~there[:, None], torch.inf)
    return distances.topk(min(k, ca.shape[1]), largest=False).indices


def _joined(states: Tensor, edges: Tensor, near: Tensor) -> Float[Tensor, "chain residue near 384"]:
    own = states[:, :, None].expand_as(edges)
    return torch.cat([own, edges, _of_neighbours(states, near)], -1)


def _of_neighbours(values: Tensor, near: Tensor) -> Tensor:
    chains = torch.arange(len(values), device=values.device)[:, None, None]
    return values[chains, near]


def _check(i: int, backbone: Tensor) -> None:
    if backbone.shape[1:] != (4, 3):
        shape = tuple(backbone.shape)
        raise ParameterError(f"backbone {i} has the shape {shape}; it must be [residue, 4, 3] (N, CA, C, O)")
    if not resolved(backbone).any():
        raise ParameterError(f"backbone {i} has no residue with all four atoms; at least one is needed")
