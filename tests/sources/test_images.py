import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from readout.errors import AssetError, ParameterError
from readout.sources.images import picture, render

DISC = '<circle cx="5" cy="5" r="4" fill="#ff0000"/>'


def svg(path, body=DISC, box="0 0 10 10"):
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">{body}</svg>')
    return path


@pytest.fixture(scope="module")
def disc(tmp_path_factory):
    return svg(tmp_path_factory.mktemp("svg") / "disc.svg")


@given(size=st.integers(1, 300))
def test_a_drawing_is_a_square_of_the_size_asked_for_on_white(disc, size):
    drawn = render(disc, size)
    assert (drawn.shape, drawn.dtype) == ((size, size, 3), np.uint8)
    if size >= 10:
        corners = drawn[[0, 0, -1, -1], [0, -1, 0, -1]]
        assert (corners == 255).all()
        assert drawn[size // 2, size // 2].tolist() == [255, 0, 0]


def test_the_area_of_a_disc_is_right(disc):
    # Green goes from 255 outside to 0 inside, edges in between, so its mean is the uncovered share.
    covered = 1 - render(disc, 200)[:, :, 1].mean() / 255
    assert covered == pytest.approx(np.pi * 0.4**2, abs=2e-3)


@pytest.mark.parametrize(("box", "white"), [("0 0 4 2", "rows"), ("0 0 2 4", "columns")])
def test_proportions_are_kept_and_the_rest_is_white(tmp_path, box, white):
    drawn = render(svg(tmp_path / "x.svg", '<rect width="9" height="9"/>', box), 8)[:, :, 0]
    drawn = drawn if white == "rows" else drawn.T
    assert (drawn[[0, 1, 6, 7]] == 255).all()
    assert (drawn[2:6] == 0).all()


@pytest.mark.parametrize("content", [b"", b"<svg", b"<p>no svg</p>", b"\xff\xfe\x00"])
def test_a_broken_drawing_is_named(tmp_path, content):
    (tmp_path / "broken.svg").write_bytes(content)
    with pytest.raises(AssetError, match=r"broken.svg' could not be drawn: ") as caught:
        render(tmp_path / "broken.svg")
    assert "\n" not in str(caught.value)


def test_a_missing_drawing_and_an_impossible_size_are_named(tmp_path, disc):
    with pytest.raises(AssetError, match=r"none.svg' could not be drawn: .*No such file"):
        render(tmp_path / "none.svg")
    with pytest.raises(ParameterError, match="size is 0; it must be at least 1"):
        render(disc, 0)


def test_text_is_not_drawn_so_no_machines_fonts_matter(tmp_path):
    assert (render(svg(tmp_path / "t.svg", '<text y="9" font-size="9">W</text>')) == 255).all()


@pytest.mark.parametrize("format", ["png", "jpeg"])
def test_a_photograph_is_read_from_its_path_and_from_its_bytes(tmp_path, format):
    path = tmp_path / f"p.{format}"
    Image.new("RGB", (6, 3), (10, 200, 30)).save(path)
    by_path, by_entry = picture(path), picture({"path": str(path), "bytes": None})
    by_bytes = picture({"path": None, "bytes": path.read_bytes()})
    assert by_path.size == (6, 3)
    assert np.allclose(np.asarray(by_path), (10, 200, 30), atol=3)
    assert by_path.tobytes() == by_entry.tobytes() == by_bytes.tobytes()


def test_a_drawing_is_rendered_at_the_size_and_modes_become_rgb_on_white(tmp_path, disc):
    assert np.array_equal(np.asarray(picture(disc, 50)), render(disc, 50))
    for mode, colour, seen in [
        ("L", 7, (7, 7, 7)),
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("LA", (0, 0), (255,) * 3),
    ]:
        stream = io.BytesIO()
        Image.new(mode, (2, 2), colour).save(stream, "png")
        assert picture({"path": None, "bytes": stream.getvalue()}).getpixel((0, 0)) == seen


def test_what_is_no_image_is_named(tmp_path):
    (tmp_path / "x.png").write_bytes(b"hello")
    with pytest.raises(AssetError, match=r"x.png' is no image that can be decoded"):
        picture(tmp_path / "x.png")
    Image.effect_noise((64, 64), 90).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-500])
    with pytest.raises(AssetError, match=r"cut.png' could not be decoded: ") as caught:
        picture(tmp_path / "cut.png")
    assert "\n" not in str(caught.value)
    with pytest.raises(AssetError, match=r"none.png' could not be decoded: .*No such file"):
        picture(tmp_path / "none.png")
