"""The corpus `halvest-contrastive`: spans of scholarly papers as ready-made triplets (almanach/HALvest-Contrastive).

Each row of the hub's parquet files is a triplet: query, positive, negative, and for each of them (prefixes query_,
pos_, neg_) authorids, domain, id and year. Configs base-2 .. base-10 name the sentences of a span.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import datasets

from readout.errors import AssetError

PARTS = {"query": "query", "positive": "pos", "negative": "neg"}
SPLITS = {"train": "train", "valid": "validation", "test": "test"}


def spans(folder: Path, sentences: Sequence[int]) -> Iterator[dict]:
    """Every text of the triplets once: text, config, authors, document, domain, year, position and split.

    Raises AssetError for a config or a column that is not there, and for author ids that are no list.
    """
    for k in sentences:
        config = f"base-{k}"
        for name, split in SPLITS.items():
            files = sorted((folder / config).glob(f"{name}-*.parquet"))
            if not files:
                raise AssetError(f"'{folder}' has no {config}/{name}-*.parquet; fetch the data set again")
            rows = datasets.Dataset.from_parquet([str(file) for file in files], keep_in_memory=True)
            yield from _of_split(rows, config, split)


def _of_split(rows: datasets.Dataset, config: str, split: str) -> Iterator[dict]:
    wanted = {column for part, prefix in PARTS.items() for column in (part, *_about(prefix))}
    if missing := sorted(wanted - set(rows.column_names)):
        raise AssetError(f"halvest-contrastive {config} lacks the columns {', '.join(missing)}")
    for column in (f"{prefix}_authorids" for prefix in PARTS.values()):
        # The letters of a text would pass for ids.
        if not isinstance(rows.features[column], datasets.List | datasets.LargeList):
            raise AssetError(f"halvest-contrastive {config}: {column} is no list of ids")
    seen = set()
    for row in rows:
        for part, prefix in PARTS.items():
            authors, domain, document, year = (row[column] for column in _about(prefix))
            key = str(document), row[part]
            if key in seen:
                continue
            seen.add(key)
            yield {
                "text": row[part],
                "config": config,
                "authors": [str(author) for author in authors if str(author) != "0"],
                "document": str(document),
                "domain": domain if isinstance(domain, str) else " ".join(domain),
                "year": None if year is None else int(year),
                "position": None,
                "split": split,
            }


def _about(prefix: str) -> list[str]:
    return [f"{prefix}_{name}" for name in ("authorids", "domain", "id", "year")]
