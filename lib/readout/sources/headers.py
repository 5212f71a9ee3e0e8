"""What the header of a structure file says about its molecules: a name and an organism for each chain, and keywords.

Old files hold their text in capitals; such a text is set in small letters here, so that the names read alike.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gemmi import cif

_ORGANISMS = (
    ("_entity_src_gen.", "pdbx_gene_src_scientific_name"),
    ("_entity_src_nat.", "pdbx_organism_scientific"),
    ("_pdbx_entity_src_syn.", "organism_scientific"),
)
# A file from before 1996 names one molecule and no chains.
_ANY_CHAIN = ""


@dataclass(frozen=True)
class Molecule:
    """A molecule's name and the scientific name of its organism; empty where the header has none."""

    name: str
    organism: str


@dataclass(frozen=True)
class Header:
    """The entry's id in capitals, its keywords, and the molecule of each chain; empty where there is none."""

    entry: str
    keywords: str
    molecules: dict[str, Molecule]

    def of_chain(self, chain: str) -> Molecule:
        """The molecule of a chain, nameless where the header says nothing about it."""
        return self.molecules.get(chain) or self.molecules.get(_ANY_CHAIN) or Molecule("", "")


def pdb_header(text: str) -> Header:
    r"""The header of a file in PDB format, from its records HEADER, COMPND, SOURCE and KEYWDS.

    >>> header = pdb_header('''\
    ... HEADER    CHROMOSOMAL PROTEIN                     02-JAN-87   1UBI
    ... COMPND    MOL_ID: 1; MOLECULE: UBIQUITIN; CHAIN: A, B
    ... SOURCE    MOL_ID: 1; ORGANISM_SCIENTIFIC: HOMO SAPIENS
    ... KEYWDS    CHROMOSOMAL PROTEIN''')
    >>> header.entry, header.keywords
    ('1UBI', 'chromosomal protein')
    >>> header.of_chain("B")
    Molecule(name='ubiquitin', organism='Homo sapiens')
    """
    records: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(("ATOM", "HETATM", "MODEL")):
            break
        records.setdefault(line[:6].strip(), []).append(line)
    # The HEADER record ends with the id, and another program's HEADER is free text.
    ids = (line[62:66] for line in records.get("HEADER", []) if re.fullmatch(r"\d\w{3}", line[62:66]))
    return Header(next(ids, "").upper(), _plain(_continued(records, "KEYWDS")), dict(_pdb_molecules(records)))


def mmcif_header(block: cif.Block) -> Header:
    """The header of a block in mmCIF format, from its entities, their strands and their sources."""
    names = dict(_pairs(block, "_entity.", "id", "pdbx_description"))
    organisms: dict[str, str] = {}
    for category, tag in _ORGANISMS:
        organisms |= dict(_pairs(block, category, "entity_id", tag))
    molecules = {}
    for entity, strands in _pairs(block, "_entity_poly.", "entity_id", "pdbx_strand_id"):
        molecule = Molecule(_plain(names.get(entity, "")), _species(organisms.get(entity, "")))
        molecules |= dict.fromkeys(strands.replace(" ", "").split(","), molecule)
    entry, keywords = (_value(block, tag) for tag in ("_entry.id", "_struct_keywords.text"))
    return Header(entry.upper(), _plain(keywords), molecules)


def _pdb_molecules(records: dict[str, list[str]]) -> Iterator[tuple[str, Molecule]]:
    compound, source = (_continued(records, name) for name in ("COMPND", "SOURCE"))
    if compound and "MOLECULE:" not in compound:
        in_brackets = re.search(r"\(([^)]*)\)", source)
        yield _ANY_CHAIN, Molecule(_plain(compound), _species(in_brackets[1] if in_brackets else source))
    organisms = {id: fields.get("ORGANISM_SCIENTIFIC", "") for id, fields in _by_molecule(source)}
    for id, fields in _by_molecule(compound):
        # Entries of 1998 and 1999 say PROTEIN (UBIQUITIN).
        name = re.sub(r"^PROTEIN \((.*)\)$", r"\1", fields.get("MOLECULE", ""))
        molecule = Molecule(_plain(name), _species(organisms.get(id, "")))
        for chain in fields.get("CHAIN", "NULL").split(","):
            yield chain.strip().replace("NULL", _ANY_CHAIN), molecule


def _continued(records: dict[str, list[str]], name: str) -> str:
    # Columns 8 to 10 number the lines that one text runs over.
    return " ".join(" ".join(line[10:80] for line in records.get(name, [])).split())


def _by_molecule(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for part in text.split("MOL_ID:")[1:]:
        id, *fields = (field.strip() for field in part.split(";"))
        split = (field.partition(":") for field in fields)
        yield id, {key.strip(): value.strip() for key, _, value in split}


def _pairs(block: cif.Block, category: str, key: str, value: str) -> Iterator[tuple[str, str]]:
    for row in block.find(category, [key, value]):
        yield cif.as_string(row[0]), cif.as_string(row[1])


def _value(block: cif.Block, tag: str) -> str:
    found = block.find_value(tag)
    return cif.as_string(found) if found else ""


def _plain(text: str) -> str:
    text = " ".join(text.split()).rstrip(".;")
    return text.lower() if text.isupper() else text


def _species(text: str) -> str:
    text = _plain(text)
    return text[:1].upper() + text[1:]
