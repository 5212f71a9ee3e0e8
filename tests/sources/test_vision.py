import io

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

from readout import paths
from readout.errors import AssetError, ParameterError, TooFewError
from readout.sources import vision
from readout.sources.captions import captions
from readout.sources.images import picture
from readout.sources.vision import image_features, pixels


def noise(seed, size=(40, 40)):
    values = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "png")
    return {"path": f"{seed}.png", "bytes": stream.getvalue()}


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory):
    """A DINOv2 of two blocks with random weights, and its folder."""
    folder = tmp_path_factory.mktemp("dinov2")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = Dinov2Config(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
        )
        model = Dinov2Model(config).eval()
    model.save_pretrained(folder)
    BitImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28}).save_pretrained(
        folder
    )
    return folder, model


@pytest.fixture(scope="module")
def convnet(tmp_path_factory):
    """The architecture of EfficientNet-Lite0 with random weights, and its folder."""
    from efficientnet_lite_pytorch import EfficientNet

    folder = tmp_path_factory.mktemp("lite0")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = EfficientNet.from_name("efficientnet-lite0").eval()
    save_file(model.state_dict(), folder / "model.safetensors")
    return folder, model


def test_dinov2_is_averaged_over_the_class_token_and_all_patches(dinov2):
    folder, model = dinov2
    images = [noise(i, (50, 36)) for i in range(3)]
    given = BitImageProcessor.from_pretrained(folder)(
        images=[picture(i) for i in images], return_tensors="pt"
    )
    with torch.no_grad():
        blocks = model(**given, output_hidden_states=True).hidden_states[-1]
        expected = model.layernorm(blocks).mean(1)
    assert blocks.shape == (3, 5, 16)
    found = image_features(images, folder)
    torch.testing.assert_close(found, expected)
    assert (found.dtype, found.is_inference(), found.requires_grad) == (torch.float32, False, False)


def test_lite0_is_the_last_feature_map_averaged_over_places(convnet, monkeypatch):
    folder, model = convnet
    monkeypatch.setattr(vision, "locate", lambda id: folder)
    images = [noise(i) for i in range(2)]
    seen = []
    model._fc.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with torch.no_grad():
        model(pixels([picture(image) for image in images]))
    found = image_features(images)
    assert found.shape == (2, 1280)
    torch.testing.assert_close(found, seen[0])


def test_batches_change_nothing_and_order_is_kept(dinov2):
    images = [noise(i) for i in range(5)]
    whole = image_features(images, dinov2[0])
    for batch_size in (1, 2, 5, 9):
        found = image_features(images, dinov2[0], batch_size=batch_size)
        torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(image_features(images[::-1], dinov2[0]), whole.flip(0), rtol=1e-5, atol=1e-6)
    assert torch.pdist(whole).min() > 1e-3


def test_a_photograph_gives_its_central_square():
    wide = Image.new("RGB", (600, 224), "red")
    wide.paste(Image.new("RGB", (224, 224), "blue"), (188, 0))
    assert pixels([wide])[0, 0].max() == -127 / 128
    square = picture(noise(0, (224, 224)))
    back = (pixels([square])[0] * 128 + 127).round().permute(1, 2, 0)
    assert np.array_equal(back, np.asarray(square))


def test_loading_leaves_the_callers_random_state_alone(convnet, dinov2):
    before = torch.random.get_rng_state()
    vision.lite0(convnet[0])
    vision.mean_of_positions(dinov2[0])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_cannot_be_encoded_is_named(dinov2):
    with pytest.raises(TooFewError, match="images is empty; at least one image is needed"):
        image_features([], dinov2[0])
    with pytest.raises(ParameterError, match="batch_size is 0; it must be at least 1"):
        image_features([noise(0)], dinov2[0], batch_size=0)
    with pytest.raises(AssetError, match=r"x.png' is no image"):
        image_features([{"path": "x.png", "bytes": b"hello"}], dinov2[0])


def test_an_encoder_that_is_not_whole_is_refused(dinov2, tmp_path):
    with pytest.raises(AssetError, match="holds no weights of efficientnet-lite0: ") as caught:
        vision.lite0(dinov2[0])
    assert "\n" not in str(caught.value)
    with pytest.raises(AssetError, match="holds no weights of efficientnet-lite0: No such file"):
        vision.lite0(tmp_path)
    with pytest.raises(AssetError, match=r"image encoder .* could not be loaded: "):
        vision.mean_of_positions(tmp_path)
    for file in dinov2[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["encoder.layer.1.norm2.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssetError, match=r"lacks 1 weights, among them encoder.layer.1.norm2.weight"):
        vision.mean_of_positions(tmp_path)


@pytest.mark.assets
def test_the_real_net_puts_fruit_beside_an_apple_and_birds_beside_a_penguin():
    paths.root.cache_clear()
    pairs = captions()
    kinds = ("food-fruit", "animal-bird", "musical-instrument")
    pairs = pairs.select([i for i, group in enumerate(pairs["group"]) if group in kinds])
    features = torch.nn.functional.normalize(image_features(pairs["image"]), dim=-1)
    nearest = (features @ features.T).fill_diagonal_(-1).argsort(1, descending=True)
    groups, names = np.array(pairs["group"]), list(pairs["text"])
    assert features.shape == (50, 1280)
    assert set(groups[nearest[names.index("red apple"), :3]]) <= {"food-fruit"}
    assert set(groups[nearest[names.index("penguin"), :3]]) == {"animal-bird"}
    # Of 2000 shuffles of the groups none reached 0.7.
    assert (groups == groups[nearest[:, 0]]).mean() > 0.7
