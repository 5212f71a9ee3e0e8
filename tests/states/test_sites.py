import pytest

from readout.errors import ParameterError
from readout.states import Site


def test_names_say_the_place_and_the_norm():
    assert [Site(layer, 3).name for layer in range(4)] == ["embedding", "block 1", "block 2", "block 3"]
    normed = [Site(layer, 3, "final").name for layer in range(4)]
    assert normed == ["embedding, normed", "block 1, normed", "block 2, normed", "final"]


def test_depth_runs_from_zero_to_one():
    assert [Site(layer, 4).depth for layer in range(5)] == [0, 0.25, 0.5, 0.75, 1]


def test_sites_sort_by_layer_and_serve_as_keys():
    assert sorted([Site(11, 12), Site(2, 12), Site(0, 12)]) == [Site(0, 12), Site(2, 12), Site(11, 12)]
    assert {Site(3, 12): "here"}[Site(3, 12, "raw")] == "here"
    assert Site(3, 12) != Site(3, 12, "final")


@pytest.mark.parametrize("layer", [-1, 4])
def test_a_layer_outside_the_model_is_refused(layer):
    with pytest.raises(ParameterError, match=rf"layer: {layer} is not in 0\.\.3"):
        Site(layer, 3)
