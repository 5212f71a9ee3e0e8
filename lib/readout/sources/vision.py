"""Images in, one vector of features each out: what the states of a caption are compared with.

`efficientnet-lite0` comes with the default profiles: a small convolutional net trained with ImageNet's labels. The
published alignment has DINOv2, a vision transformer trained without any; `dinov2-base` and any other vision model
that transformers knows are read the same way, from an asset or a local folder.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoImageProcessor, AutoModel

from readout.errors import AssetError, ParameterError, TooFewError
from readout.progress import progress_bar
from readout.sources.assets import locate
from readout.sources.convert import quiet_transformers
from readout.sources.images import Picture, picture

LITE0 = "efficientnet-lite0"
SIDE = 224

Encoder = Callable[[Sequence[Image.Image]], Float[Tensor, "image dim"]]

_OFFLINE = {"trust_remote_code": False, "local_files_only": True}


def image_features(
    images: Sequence[Picture], encoder: str | Path = LITE0, *, batch_size: int = 32, progress: bool = False
) -> Float[Tensor, "image dim"]:
    """The features of each image, in float32 and in order: 1280 numbers from EfficientNet-Lite0, 768 from DINOv2-B.

    `encoder` is an asset, or the folder of a vision model of transformers (a `Path`). Batches bound the memory and
    change no feature beyond rounding. Raises TooFewError for no image, ParameterError for a batch size below 1, and
    AssetError where the encoder is not fetched or not whole, or an image does not decode.
    """
    if not images:
        raise TooFewError("images is empty; at least one image is needed")
    if batch_size < 1:
        raise ParameterError(f"batch_size is {batch_size}; it must be at least 1")
    encode = load_encoder(encoder)
    features = []
    with progress_bar(len(images), what="images", unit="image", shown=progress) as bar:
        for at in range(0, len(images), batch_size):
            pictures = [picture(image, SIDE) for image in images[at : at + batch_size]]
            features.append(encode(pictures))
            bar.update(len(pictures))
    return torch.cat(features)


def load_encoder(encoder: str | Path) -> Encoder:
    """The function from RGB pictures to features that the encoder of an asset or a folder is.

    Raises AssetError where it is not fetched or not whole.
    """
    if encoder == LITE0:
        return lite0(locate(LITE0))
    return mean_of_positions(locate(encoder) if isinstance(encoder, str) else encoder)


def lite0(folder: Path) -> Encoder:
    """EfficientNet-Lite0 with the weights of a folder: its last feature map, averaged over places.

    A picture is cropped to its central square, scaled to 224 pixels (bicubic) and given as (x - 127) / 128, as the
    net was trained. Raises AssetError where the weights are not those of this net.
    """
    # Late, since only this encoder needs the package.
    from efficientnet_lite_pytorch import EfficientNet

    # fork_rng: the initial weights are drawn, and would move the caller's random state.
    with torch.random.fork_rng(devices=[]):
        model = EfficientNet.from_name(LITE0).eval()
    try:
        model.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise AssetError(f"'{folder}' holds no weights of {LITE0}: {_first_line(error)}") from None

    @torch.inference_mode()
    def encode(pictures: Sequence[Image.Image]) -> Float[Tensor, "image 1280"]:
        return model.extract_features(pixels(pictures)).mean((-2, -1)).clone()

    return encode


def pixels(pictures: Sequence[Image.Image]) -> Float[Tensor, "image 3 height width"]:
    """What EfficientNet-Lite0 is given: the central squares at 224 pixels, (x - 127) / 128.

    >>> pixels([Image.new("RGB", (448, 300), (255, 127, 0))])[0, :, 0, 0]
    tensor([ 1.0000,  0.0000, -0.9922])
    """
    squares = [ImageOps.fit(p, (SIDE, SIDE), Image.Resampling.BICUBIC) for p in pictures]
    channels_last = torch.from_numpy(np.stack([np.asarray(square) for square in squares]))
    return (channels_last.permute(0, 3, 1, 2).float() - 127) / 128


def mean_of_positions(folder: Path) -> Encoder:
    """A vision model of transformers: its last hidden state, averaged over all positions, as published for DINOv2.

    For DINOv2 those are the class token and the patches, after the final norm. The folder's own image processor
    prepares the pictures. Raises AssetError where the folder is not whole.
    """
    options = {"use_safetensors": True, "dtype": torch.float32, "output_loading_info": True}
    try:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):
            processor = AutoImageProcessor.from_pretrained(folder, **_OFFLINE)
            model, info = AutoModel.from_pretrained(folder, **_OFFLINE, **options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise AssetError(f"image encoder '{folder}' could not be loaded: {_first_line(error)}") from None
    if missing := sorted(info["missing_keys"]):
        raise AssetError(f"image encoder '{folder}' lacks {len(missing)} weights, among them {missing[0]}")
    model.eval()

    @torch.inference_mode()
    def encode(pictures: Sequence[Image.Image]) -> Float[Tensor, "image dim"]:
        given = processor(images=list(pictures), return_tensors="pt")
        return model(**given).last_hidden_state.mean(1).clone()

    return encode


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
