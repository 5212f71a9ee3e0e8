"""A picture from wherever it lies, as pixels: vector graphics drawn on white, photographs as they are.

A picture is a path, or what the `image` column of a data set holds: a dict of `path` and `bytes`, where the bytes
are the encoded file and are None where the path is to be read.
"""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import resvg_py
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError

from readout.errors import AssetError, ParameterError

Picture = str | Path | Mapping[str, str | bytes | None]


def render(svg: str | Path, size: int = 224) -> UInt8[np.ndarray, "size size 3"]:
    """The pixels of an SVG file on a white square of `size` pixels, centred, its proportions kept.

    System fonts are left out, so that text in a drawing cannot differ between machines (it is not drawn at all).
    Raises ParameterError for a size below 1, AssetError that names the file where it does not decode.

    >>> import tempfile
    >>> rect = '<rect width="2" height="1" fill="#000"/>'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".svg") as file:
    ...     _ = file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 1">{rect}</svg>')
    ...     file.flush()
    ...     render(file.name, size=4)[:, :, 0]
    array([[255, 255, 255, 255],
           [  0,   0,   0,   0],
           [  0,   0,   0,   0],
           [255, 255, 255, 255]], dtype=uint8)
    """
    if size < 1:
        raise ParameterError(f"size is {size}; it must be at least 1 pixel")
    try:
        png = resvg_py.svg_to_bytes(
            svg_string=Path(svg).read_text(encoding="utf-8"), width=size, height=size, skip_system_fonts=True
        )
    except (OSError, ValueError) as error:
        raise AssetError(f"'{svg}' could not be drawn: {_reason(error)}") from None
    drawn = on_white(Image.open(io.BytesIO(bytes(png))))
    square = Image.new("RGB", (size, size), "white")
    square.paste(drawn, ((size - drawn.width) // 2, (size - drawn.height) // 2))
    return np.array(square)


def picture(image: Picture, size: int = 224) -> Image.Image:
    """The RGB picture of a path or of an entry of an `image` column; only an SVG takes `size`.

    Where a picture is transparent it is white. Raises AssetError that names the file where it does not decode.
    """
    path, content = (image["path"], image["bytes"]) if isinstance(image, Mapping) else (image, None)
    if content is None and Path(path).suffix == ".svg":
        return Image.fromarray(render(path, size))
    try:
        return on_white(Image.open(io.BytesIO(Path(path).read_bytes() if content is None else content)))
    except UnidentifiedImageError:
        raise AssetError(f"'{path}' is no image that can be decoded") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise AssetError(f"'{path}' could not be decoded: {_reason(error)}") from None


def on_white(image: Image.Image) -> Image.Image:
    """The picture in RGB, laid on white where it is transparent.

    >>> on_white(Image.new("RGBA", (1, 1), (0, 0, 0, 0))).getpixel((0, 0))
    (255, 255, 255)
    """
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
