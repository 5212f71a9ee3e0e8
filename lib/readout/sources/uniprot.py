"""Proteins of UniProtKB with a text about each, and features of their structures computed elsewhere.

The published alignment (arXiv 2605.09969) takes reviewed entries with a structure, in TSV format, from

    https://rest.uniprot.org/uniprotkb/search?query=(structure_3d:true) AND (reviewed:true)&format=tsv&size=500
    &fields=accession,id,protein_name,gene_names,organism_name,cc_function,xref_pdb

and from the page that the `Link` header of each answer names as next, as a page holds 500 entries at most. With a
row for each structure and chain most rows would repeat the text of another, and alignment would find twins; here a
protein is one row. Its structures are encoded by ESM-3, which needs a package of its own: what that made is read
from a file (`stored_features`).
"""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import datasets
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from readout.errors import AssetError, NonFiniteError, ParameterError, TextError, TooFewError

# The fields of the query, and how the columns of the answer are headed.
FIELDS = {
    "accession": "Entry",
    "id": "Entry Name",
    "protein_name": "Protein names",
    "gene_names": "Gene Names",
    "organism_name": "Organism",
    "cc_function": "Function [CC]",
    "xref_pdb": "PDB",
}

_FEATURES = datasets.Features(
    {name: datasets.Value("string") for name in ("id", "name", "genes", "organism", "function", "text")}
    | {"structures": datasets.List(datasets.Value("string"))}
)


def uniprot(path: Path, n: int | None = None) -> datasets.Dataset:
    """The first `n` distinct proteins of a TSV file in stored order, all of them for None.

    Columns: id, the accession; name, genes, organism, function; text, these in a sentence or two; structures, the
    PDB ids of all rows of the protein. Columns of the file may be headed by the fields of the query or by the
    titles of the answer. Of rows with one accession, or one name and organism, the first gives the texts;
    `info.description` says how many were left out for which reason.

    Raises AssetError where the file cannot be read or lacks a column, TextError for a row without accession or name,
    ParameterError for an n that the file does not hold.
    """
    left_out: Counter[str] = Counter()
    found = _distinct(_rows(path), left_out)
    if n is not None and not 1 <= n <= len(found):
        raise ParameterError(f"n is {n}; '{path}' holds {len(found)} proteins")
    proteins = datasets.Dataset.from_list(found[:n], features=_FEATURES)
    counts = ", ".join(f"{reason} {count}" for reason, count in sorted(left_out.items())) or "none"
    proteins.info.description = f"{len(found)} proteins in the file; left out: {counts}"
    return proteins


def stored_features(path: Path, ids: Sequence[str]) -> Float[Tensor, "protein dim"]:
    """The features of proteins from a safetensors file with one vector an id, in the order of `ids`, as float32.

    The file holds a tensor [dim] under each id. As published: ESM-3's embeddings of the structure track (its
    sequence masked), averaged over all positions, the ones before the first and after the last residue included.

    Raises TooFewError for no id, AssetError where the file cannot be read, lacks an id (the first is named) or
    holds other shapes, NonFiniteError that names the id of a vector with NaN or infinite values.
    """
    if not ids:
        raise TooFewError("ids is empty; at least one protein is needed")
    try:
        with safe_open(path, framework="pt") as file:
            stored = set(file.keys())
            if absent := [id for id in ids if id not in stored]:
                raise AssetError(
                    f"'{path}' lacks {len(absent)} of {len(ids)} proteins, among them {absent[0]}"
                )
            vectors = [file.get_tensor(id).float() for id in ids]
    except (OSError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AssetError(f"'{path}' could not be read as safetensors: {reason}") from None
    for id, vector in zip(ids, vectors, strict=True):
        if vector.ndim != 1 or vector.shape != vectors[0].shape:
            shape, first = tuple(vector.shape), tuple(vectors[0].shape)
            raise AssetError(
                f"'{path}': {id} has the shape {shape}; one vector a protein, like {first}, is needed"
            )
        if not vector.isfinite().all():
            raise NonFiniteError(f"'{path}': the features of {id} hold NaN or infinite values")
    return torch.stack(vectors)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            heads = set(table.fieldnames or ())
            names = {field: title if title in heads else field for field, title in FIELDS.items()}
            if missing := sorted(set(names.values()) - heads):
                raise AssetError(f"'{path}' lacks the columns {', '.join(missing)}; it must be TSV")
            return [{field: (row[name] or "").strip() for field, name in names.items()} for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise AssetError(f"'{path}' could not be read as TSV: {error}") from None


def _distinct(rows: Iterable[dict[str, str]], left_out: Counter[str]) -> list[dict]:
    kept: dict[str, dict] = {}
    named: dict[tuple[str, str], str] = {}
    for row in rows:
        own = _protein(row)
        name = own["name"].lower(), own["organism"].lower()
        if own["id"] in kept:
            twin, reason = own["id"], "same accession"
        elif name in named:
            twin, reason = named[name], "same name and organism"
        else:
            kept[own["id"]], named[name] = own, own["id"]
            continue
        left_out[reason] += 1
        structures = dict.fromkeys(kept[twin]["structures"] + own["structures"])
        kept[twin]["structures"] = list(structures)
    return list(kept.values())


def _protein(row: dict[str, str]) -> dict:
    id, name = row["accession"], row["protein_name"]
    if not id or not name:
        raise TextError(f"protein {id!r} has the name {name!r}; every row needs an accession and a name")
    genes = f" (gene {row['gene_names']})" if row["gene_names"] else ""
    organism = f" from {row['organism_name']}" if row["organism_name"] else ""
    function = row["cc_function"].removeprefix("FUNCTION: ")
    return {
        "id": id,
        "name": name,
        "genes": row["gene_names"],
        "organism": row["organism_name"],
        "function": function,
        "text": f"{name}{genes}{organism}. {function}".strip(),
        "structures": [pdb for pdb in row["xref_pdb"].split(";") if pdb],
    }
