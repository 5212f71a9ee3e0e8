"""Pairs of a caption and an image, for the question whether a text's states are arranged as an image's features.

`openmoji`: drawings of emoji with their English names. `wit-1024`: the pictures and captions of Wikipedia that the
published alignment rests on (arXiv 2605.09969). The drawings have captions of two lengths and `shortened` makes
those between, since what generating gains was measured to depend on how long a caption is.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import datasets
import emoji
import numpy as np
import pyarrow as pa

from readout.errors import AssetError, ParameterError, TextError
from readout.sources.assets import locate

WORDINGS = {"openmoji": ("short", "long"), "wit-1024": ("short",)}

_FEATURES = datasets.Features(
    id=datasets.Value("string"),
    text=datasets.Value("string"),
    image=datasets.Image(decode=False),
    group=datasets.Value("string"),
)
# Flags and keycaps are signs rather than pictures of something, and a skin tone is a change to another picture.
_NOT_PICTURES = {"Flags", "Component"}
_VARIATION = "\ufe0f"


def captions(
    n: int | None = None, *, corpus: str = "openmoji", wording: str = "short", seed: int = 0
) -> datasets.Dataset:
    """`n` captioned images in an order that `seed` draws, all of them for None; the first k are those of n = k.

    Columns: id; text, the caption; image, what `readout.sources.images.picture` opens; group, the kind of thing
    shown (`openmoji`: such as food-fruit; `wit-1024`: ""). Wording: `short` is the name, as "red apple"; `long` is
    a sentence that starts with the name and adds other names, kind and group. `wit-1024` has the one wording.

    Raises ParameterError for an unknown corpus or wording, a seed below 0, or an n that the corpus does not hold;
    TextError for an empty caption; AssetError where the corpus is not fetched or not as it should be.
    """
    if corpus not in WORDINGS:
        raise ParameterError(f"corpus is {corpus!r}; it must be one of {', '.join(WORDINGS)}")
    if wording not in WORDINGS[corpus]:
        raise ParameterError(f"wording is {wording!r}; {corpus} has {', '.join(WORDINGS[corpus])}")
    if seed < 0:
        raise ParameterError(f"seed is {seed}; it must be at least 0")
    folder = locate(corpus)
    pairs = wit_1024(folder) if corpus == "wit-1024" else openmoji(folder, locate("emoji-data"), wording)
    if n is not None and not 1 <= n <= len(pairs):
        raise ParameterError(f"n is {n}; {corpus} holds {len(pairs)} captioned images")
    return pairs.select(np.random.default_rng(seed).permutation(len(pairs))[:n])


def shortened(pairs: datasets.Dataset, words: int) -> datasets.Dataset:
    """The same pairs with the first `words` words of each caption; a caption of fewer words stays as it is.

    Raises ParameterError where words is below 1.

    >>> pairs = datasets.Dataset.from_dict({"text": ["red apple: a fruit", "cat"]})
    >>> shortened(pairs, 2)["text"][:]
    ['red apple:', 'cat']
    """
    if words < 1:
        raise ParameterError(f"words is {words}; it must be at least 1")
    # `add_column` would first copy the rows of a selection, under a progress bar of its own.
    table = pairs.with_format("arrow")[:]
    at = table.schema.get_field_index("text")
    cut = [" ".join(text.split()[:words]) for text in table["text"].to_pylist()]
    info = datasets.DatasetInfo(features=pairs.features)
    return datasets.Dataset(table.set_column(at, "text", pa.array(cut, pa.string())), info=info)


def openmoji(drawings: Path, table: Path, wording: str) -> datasets.Dataset:
    """Every emoji of one code point that has a drawing, an English name and a row in the table, by code point.

    `drawings` holds an SVG a code point, `table` the `emoji.json` of the asset `emoji-data`. Columns as `captions`
    has them. Raises AssetError where nothing fits, TextError for an empty name.
    """
    rows = sorted(_emoji(drawings, table, wording), key=lambda row: int(row["id"], 16))
    if not rows:
        raise AssetError(f"'{drawings}' holds no drawing of an emoji named in '{table}'; fetch both again")
    return _checked("openmoji", datasets.Dataset.from_list(rows, features=_FEATURES))


def _emoji(drawings: Path, table: Path, wording: str) -> Iterator[dict]:
    for row in json.loads((table / "emoji.json").read_text(encoding="utf-8")):
        character = "".join(chr(int(point, 16)) for point in row["unified"].split("-"))
        known = emoji.EMOJI_DATA.get(character)
        drawing = drawings / f"{ord(character[0]):04X}.svg"
        is_one = len(character.removesuffix(_VARIATION)) == 1 and row["category"] not in _NOT_PICTURES
        if is_one and row["subcategory"] != "keycap" and known and drawing.is_file():
            name = _words(known["en"])
            text = name if wording == "short" else _sentence(name, known.get("alias", []), row)
            image = {"path": str(drawing), "bytes": None}
            yield {"id": drawing.stem, "text": text, "image": image, "group": row["subcategory"]}


def _sentence(name: str, aliases: list[str], row: dict) -> str:
    others = dict.fromkeys(map(_words, [*aliases, *row["short_names"]]))
    also = ", ".join(other for other in others if other.lower() != name.lower())
    called = f", also called {also}" if also else ""
    kind = row["subcategory"].replace("-", " ")
    return f"{name}{called}: a drawing of the kind {kind}, in the group {row['category']}"


def _words(code: str) -> str:
    return code.strip(":").replace("_", " ")


def wit_1024(folder: Path) -> datasets.Dataset:
    """The rows of the hub's parquet files; of the texts of a row the first is the caption.

    Columns as `captions` has them, images still encoded. Raises AssetError where there is no file or a column is
    not there, TextError for a row without a caption.
    """
    files = sorted(str(file) for file in folder.rglob("*.parquet"))
    if not files:
        raise AssetError(f"'{folder}' has no *.parquet; fetch wit-1024 again")
    rows = datasets.Dataset.from_parquet(files, keep_in_memory=True)
    if missing := sorted({"text", "image"} - set(rows.column_names)):
        raise AssetError(f"wit-1024 lacks the columns {', '.join(missing)}")
    if not isinstance(rows.features["text"], datasets.List | datasets.LargeList):
        # Of one text the first item would be its first letter.
        raise AssetError("wit-1024: text is no list of texts")
    return _checked("wit-1024", _pairs(rows))


def _pairs(rows: datasets.Dataset) -> datasets.Dataset:
    columns = {
        "id": [str(i) for i in range(len(rows))],
        "text": [texts[0] if texts else "" for texts in rows["text"]],
        "group": [""] * len(rows),
    }
    pairs = rows.select_columns(["image"])
    for name, values in columns.items():
        pairs = pairs.add_column(name, values)
    return pairs.select_columns(list(_FEATURES)).cast(_FEATURES)


def _checked(corpus: str, pairs: datasets.Dataset) -> datasets.Dataset:
    for id, text in zip(pairs["id"], pairs["text"], strict=True):
        if not text or not text.strip():
            raise TextError(f"caption of {corpus} {id} is {text!r}; every image needs a caption")
    return pairs
