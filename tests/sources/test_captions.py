import io
import json

import datasets
import pytest
from datasets import Dataset
from PIL import Image

from readout import paths
from readout.errors import AssetError, ParameterError, TextError
from readout.sources import captions as module
from readout.sources.captions import captions, openmoji, shortened, wit_1024
from readout.sources.images import picture, render

APPLE = "red apple, also called apple: a drawing of the kind food fruit, in the group Food & Drink"


def entry(unified, category="Food & Drink", subcategory="food-fruit", short_names=("apple",)):
    return {
        "unified": unified,
        "category": category,
        "subcategory": subcategory,
        "short_names": list(short_names),
    }


TABLE = [
    entry("1F427", "Animals & Nature", "animal-bird", ["penguin"]),
    entry("1F34E"),
    entry("2602-FE0F", "Travel & Places", "sky & weather", ["umbrella"]),
    entry("1F1EB-1F1F7", "Flags", "country-flag", ["fr"]),
    entry("1F3C1", "Flags", "flag", ["checkered_flag"]),
    entry("1F51F", "Symbols", "keycap", ["keycap_ten"]),
    entry("1F3FB", "Component", "skin-tone", ["skin-tone-2"]),
    entry("1F44D-1F3FB", "People & Body", "hand-fingers-closed", ["thumbsup"]),
    entry("1F34A", short_names=["tangerine"]),
    entry("E000", short_names=["private"]),
]


@pytest.fixture
def folder(tmp_path):
    """A table of ten emoji, drawings for all of them but one."""
    for row in TABLE:
        if row["unified"] != "1F34A":
            name = row["unified"].removesuffix("-FE0F")
            (tmp_path / f"{name}.svg").write_text(
                '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>'
            )
    (tmp_path / "emoji.json").write_text(json.dumps(TABLE))
    return tmp_path


@pytest.fixture
def assets(monkeypatch, folder):
    monkeypatch.setattr(module, "locate", lambda id: folder)
    return folder


def test_single_emoji_with_a_drawing_and_a_name_are_pairs_and_nothing_else(folder):
    pairs = openmoji(folder, folder, "short")
    assert pairs.to_list() == [
        {
            "id": id,
            "text": text,
            "image": {"path": str(folder / f"{id}.svg"), "bytes": None},
            "group": group,
        }
        for id, text, group in [
            ("2602", "umbrella", "sky & weather"),
            ("1F34E", "red apple", "food-fruit"),
            ("1F427", "penguin", "animal-bird"),
        ]
    ]


def test_the_long_wording_starts_with_the_short_one(folder):
    short, long = (openmoji(folder, folder, wording)["text"][:] for wording in ("short", "long"))
    assert all(a.startswith(b) and len(a) > len(b) for a, b in zip(long, short, strict=True))
    assert long[1] == APPLE
    assert long[2] == "penguin: a drawing of the kind animal bird, in the group Animals & Nature"


def test_a_draw_follows_the_seed_and_its_start_is_that_of_a_smaller_one(assets):
    whole = captions(seed=3)["id"][:]
    assert sorted(whole) == ["1F34E", "1F427", "2602"]
    assert [captions(n, seed=3)["id"][:] for n in (1, 2, 3)] == [whole[:1], whole[:2], whole]
    assert len({tuple(captions(seed=seed)["id"]) for seed in range(20)}) > 1
    assert captions(3, seed=3, wording="long")["id"][:] == whole


def test_captions_get_shorter_word_by_word(assets, capsys):
    pairs = captions(wording="long")
    cut = shortened(pairs, 4)
    assert capsys.readouterr().err == ""  # no progress bar of the library's own in a notebook
    assert "red apple, also called" in cut["text"][:]
    assert shortened(pairs, 99)["text"][:] == pairs["text"][:]
    assert cut.column_names == pairs.column_names
    assert cut.remove_columns("text").to_list() == pairs.remove_columns("text").to_list()
    with pytest.raises(ParameterError, match="words is 0; it must be at least 1"):
        shortened(pairs, 0)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"corpus": "flickr"}, "corpus is 'flickr'; it must be one of openmoji, wit-1024"),
        ({"wording": "loud"}, "wording is 'loud'; openmoji has short, long"),
        ({"corpus": "wit-1024", "wording": "long"}, "wording is 'long'; wit-1024 has short"),
        ({"n": 0}, "n is 0; openmoji holds 3 captioned images"),
        ({"n": 4}, "n is 4; openmoji holds 3 captioned images"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
    ],
)
def test_what_cannot_be_had_is_named(assets, arguments, named):
    with pytest.raises(ParameterError, match=named):
        captions(**arguments)


def test_an_empty_folder_and_an_empty_name_are_named(folder, tmp_path_factory, monkeypatch):
    with pytest.raises(AssetError, match="holds no drawing of an emoji named in"):
        openmoji(tmp_path_factory.mktemp("empty"), folder, "short")
    monkeypatch.setitem(module.emoji.EMOJI_DATA, "\U0001f34e", {"en": "::"})
    with pytest.raises(TextError, match="caption of openmoji 1F34E is ''; every image needs a caption"):
        openmoji(folder, folder, "short")


def wit(folder, texts, **changes):
    """The rows as the hub has them: encoded images, and a list of texts each."""
    streams = [io.BytesIO() for _ in texts]
    for i, stream in enumerate(streams):
        Image.new("RGB", (4, 2), (i, 0, 0)).save(stream, "png")
    images = [{"path": f"{i}.png", "bytes": stream.getvalue()} for i, stream in enumerate(streams)]
    columns = {"image": images, "text": texts} | changes
    kept = {name: column for name, column in columns.items() if column is not None}
    (folder / "data").mkdir(exist_ok=True)
    rows = Dataset.from_dict(kept)
    if "image" in kept:
        rows = rows.cast_column("image", datasets.Image())
    rows.to_parquet(folder / "data/train-00000-of-00001.parquet")
    return folder


def test_of_the_texts_of_a_row_of_wit_the_first_is_the_caption(tmp_path, monkeypatch):
    texts = [["a lighthouse", "page", "section"], ["a bridge"], ["two words", "page"]]
    pairs = wit_1024(wit(tmp_path, texts))
    assert pairs["text"][:] == ["a lighthouse", "a bridge", "two words"]
    assert pairs.column_names == ["id", "text", "image", "group"]
    assert [picture(row["image"]).getpixel((0, 0)) for row in pairs] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    assert [picture(row["image"]).size for row in pairs] == [(4, 2)] * 3
    monkeypatch.setattr(module, "locate", lambda id: tmp_path)
    drawn = captions(2, corpus="wit-1024", seed=1)
    by_id = {row["id"]: row for row in pairs.to_list()}
    assert [by_id[row["id"]] for row in drawn.to_list()] == drawn.to_list()
    assert shortened(drawn, 1)["image"][:] == drawn["image"][:]


@pytest.mark.parametrize("texts", [["", "page"], [" "], []])
def test_a_row_of_wit_without_a_caption_is_named(tmp_path, texts):
    wit(tmp_path, [["a lighthouse"], texts])
    with pytest.raises(TextError, match=r"caption of wit-1024 1 is .*; every image needs a caption"):
        wit_1024(tmp_path)


def test_a_wit_of_another_schema_is_named(tmp_path):
    with pytest.raises(AssetError, match=r"has no \*.parquet; fetch wit-1024 again"):
        wit_1024(tmp_path)
    with pytest.raises(AssetError, match="wit-1024: text is no list of texts"):
        wit_1024(wit(tmp_path, [[""]], text=["a lighthouse"]))
    with pytest.raises(AssetError, match="wit-1024 lacks the columns image"):
        wit_1024(wit(tmp_path, [["a"]], image=None))


@pytest.mark.assets
def test_the_real_drawings_have_names_of_their_own_and_decode():
    paths.root.cache_clear()
    pairs = captions()
    assert len(pairs) == 1371
    assert len(set(pairs["text"])) == len(set(pairs["id"])) == len(pairs)
    assert all(1 <= len(text.split()) <= 9 for text in pairs["text"])
    by_name = dict(zip(pairs["text"], pairs, strict=True))
    assert by_name["penguin"]["group"] == "animal-bird"
    assert {"red apple", "trumpet", "grinning face", "copyright"} <= by_name.keys()
    assert not {row["group"] for row in pairs} & {"flag", "country-flag", "keycap", "skin-tone"}
    assert APPLE in captions(wording="long")["text"][:]


@pytest.mark.assets
def test_a_real_drawing_has_white_corners_and_colour_inside():
    paths.root.cache_clear()
    for row in captions(20):
        drawn = render(row["image"]["path"])
        assert drawn.shape == (224, 224, 3)
        assert (drawn[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()
        assert 0.02 < (drawn != 255).any(-1).mean() < 0.9
