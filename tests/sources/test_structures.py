import gzip
import random

import gemmi
import pytest
import torch

from readout.errors import AssetError, ParameterError
from readout.sources import structures
from readout.sources.structures import backbone, backbones, chains, proteins

ATOMS = ("N", "CA", "C", "O")
LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def sequence(seed: int, n: int = 50) -> str:
    return "".join(random.Random(seed).choices(LETTERS, k=n))


def numbered(letters: str, chain: str = "A", numbers=None, skipped=lambda place, atom: False) -> str:
    """ATOM records where residue i has its atom a at (i, a, 0), i counted from 0."""
    lines = []
    for place, letter in enumerate(letters):
        name = gemmi.expand_one_letter(letter, gemmi.ResidueKind.AA)
        number = f"{place + 1} " if numbers is None else numbers[place]
        for which, atom in enumerate(ATOMS):
            if not skipped(place, atom):
                at = f"{place:8.3f}{which:8.3f}{0:8.3f}"
                serial = len(lines) + 1
                lines.append(
                    f"ATOM  {serial:5d}  {atom:<3} {name} {chain}{number:>5}   {at}  1.00  0.00           {atom[0]}"
                )
    return "\n".join(lines) + "\nTER\n"


def header(entry: str, *names: str, organism: str = "HOMO SAPIENS") -> str:
    """The header of an entry whose chains A, B, ... have the given names."""
    lines = [f"HEADER    TRANSPORT PROTEIN                       01-JAN-00   {entry}"]
    for i, name in enumerate(names):
        lines.append(f"COMPND    MOL_ID: {i}; MOLECULE: {name}; CHAIN: {'ABCDEFGH'[i]};")
        lines.append(f"SOURCE    MOL_ID: {i}; ORGANISM_SCIENTIFIC: {organism};")
    return "\n".join([*lines, "KEYWDS    TRANSPORT"]) + "\n"


def write(folder, name: str, *parts: str):
    path = folder / name
    path.write_text("".join(parts) + "END\n")
    return path


def counts(dataset) -> dict[str, int]:
    listed = dataset.info.description.partition("left out: ")[2]
    return (
        {} if listed == "none" else {k: int(n) for k, _, n in (c.rpartition(" ") for c in listed.split(", "))}
    )


def test_a_row_says_what_the_header_says_of_the_chain(tmp_path):
    path = write(
        tmp_path,
        "a.pdb",
        header("9AAA", "PORIN", "CARRIER"),
        numbered(sequence(1)),
        numbered(sequence(2), "B"),
    )
    found = chains([tmp_path])
    assert found["id"][:] == ["9AAA_A", "9AAA_B"]
    assert found[1] == {
        "id": "9AAA_B",
        "entry": "9AAA",
        "chain": "B",
        "name": "carrier",
        "keywords": "transport",
        "organism": "Homo sapiens",
        "sequence": sequence(2),
        "text": "carrier, a protein from Homo sapiens; keywords: transport.",
        "path": str(path),
    }
    assert found.info.description == "2 chains; left out: none"


def test_formats_agree(tmp_path):
    content = header("9AAA", "PORIN") + numbered(sequence(1)) + "END\n"
    structure = gemmi.read_pdb_string(content)
    structure.setup_entities()
    (tmp_path / "a.pdb.gz").write_bytes(gzip.compress(content.encode()))
    document = structure.make_mmcif_document()
    block = document.sole_block()
    (entity,) = block.find_values("_entity_poly.entity_id")
    block.set_mmcif_category("_entity.", {"id": [entity], "pdbx_description": ["porin"]})
    document.write_file(str(tmp_path / "b.cif"))
    packed, cif = backbone(tmp_path / "a.pdb.gz", "A"), backbone(tmp_path / "b.cif", "A")
    assert torch.equal(packed, cif)
    assert counts(chains([tmp_path])) == {"same sequence": 1}


def test_what_does_not_fit_is_left_out_and_counted_by_reason(tmp_path):
    names = ("SHORT", "LONG", "", "TRACE", "GOOD")
    parts = (
        numbered(sequence(1, 39)),
        numbered(sequence(2, 81), "B"),
        numbered(sequence(3), "C"),
        numbered(sequence(4), "D", skipped=lambda place, atom: atom != "CA"),
        numbered(sequence(5), "E"),
    )
    write(tmp_path, "a.pdb", header("9AAA", *names), *parts)
    (tmp_path / "broken.cif").write_text("data_x\nloop_\n")
    (tmp_path / "empty.pdb").write_text("REMARK\n")
    (tmp_path / "notes.txt").write_text("no structure")
    found = chains([tmp_path], residues=(40, 80))
    assert found["name"][:] == ["good"]
    assert counts(found) == {
        "shorter than 40": 1,
        "longer than 80": 1,
        "without a name": 1,
        "without a backbone": 1,
        "in a file that does not parse (files)": 1,
    }


def test_of_twins_the_first_by_id_stays(tmp_path):
    original = sequence(1, 60)
    # Of its 56 runs of five letters 29 are those of the original, which is more than half, and 26 less.
    near, far = original[:33] + sequence(7, 27), original[:30] + sequence(8, 30)
    write(tmp_path, "z.pdb", header("9AAA", "FIRST"), numbered(original))
    write(tmp_path, "b.pdb", header("9BBB", "SAME SEQUENCE"), numbered(original))
    write(tmp_path, "c.pdb", header("9CCC", "FIRST"), numbered(sequence(2)))
    write(tmp_path, "d.pdb", header("9DDD", "FIRST", organism="MUS MUSCULUS"), numbered(sequence(3)))
    write(tmp_path, "e.pdb", header("9EEE", "NEAR"), numbered(near))
    write(tmp_path, "f.pdb", header("9FFF", "FAR"), numbered(far))
    found = chains([tmp_path])
    assert found["entry"][:] == ["9AAA", "9DDD", "9FFF"]
    assert counts(found) == {"same sequence": 1, "same name and organism": 1, "half of the 5-mers shared": 1}


def test_the_order_of_folders_changes_nothing(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for i, folder in enumerate(folders):
        folder.mkdir()
        write(folder, "a.pdb", header(f"9AA{i}", f"NAME {i}"), numbered(sequence(i)))
        write(folder, "copy.pdb", header("9ZZZ", "COPY"), numbered(sequence(9)))
    assert chains(folders).to_list() == chains(folders[::-1]).to_list()


def test_rows_of_a_backbone_follow_the_numbering(tmp_path):
    # A gap of two places, an inserted residue, a gap of a thousand.
    numbers = ["5 ", "8 ", "8A", "9 ", "1010 ", "1011 "] + [f"{i} " for i in range(1012, 1060)]
    letters = sequence(1, len(numbers))
    path = write(tmp_path, "a.pdb", numbered(letters, numbers=numbers))
    got = backbone(path, "A")
    assert got.shape == (len(numbers) + 2 + 33, 4, 3)
    there = got.isfinite().all(-1).all(-1).nonzero()[:, 0].tolist()
    assert there[:6] == [0, 3, 4, 5, 39, 40]
    places = torch.arange(len(numbers)).float()
    assert torch.equal(got[there][:, :, 0], places[:, None].expand(-1, 4))
    assert torch.equal(got[there][:, :, 1], torch.arange(4.0).expand(len(numbers), 4))


def test_a_residue_that_lacks_an_atom_is_a_row_of_nan(tmp_path):
    cut = numbered(sequence(1), skipped=lambda place, atom: (place, atom) == (7, "O"))
    got = backbone(write(tmp_path, "a.pdb", cut), "A")
    assert got.shape == (50, 4, 3)
    assert got[7].isnan().all()
    assert not got[torch.arange(50) != 7].isnan().any()


def test_backbones_are_those_of_each_row_in_order(tmp_path):
    write(
        tmp_path, "a.pdb", header("9AAA", "ONE", "TWO"), numbered(sequence(1)), numbered(sequence(2, 60), "B")
    )
    write(tmp_path, "b.pdb", header("9BBB", "THREE"), numbered(sequence(3, 70)))
    found = chains([tmp_path]).select([2, 0, 1])
    assert [len(b) for b in backbones(found)] == [70, 50, 60]
    single = [
        backbone(tmp_path / p.rpartition("/")[2], c)
        for p, c in zip(found["path"], found["chain"], strict=True)
    ]
    assert all(torch.equal(a, b) for a, b in zip(backbones(found), single, strict=True))


def test_bad_input_is_named(tmp_path):
    path = write(tmp_path, "a.pdb", numbered(sequence(1)))
    with pytest.raises(AssetError, match="has no protein chain 'B'"):
        backbone(path, "B")
    with pytest.raises(AssetError, match=r"none.pdb' could not be read as a structure"):
        backbone(tmp_path / "none.pdb", "A")
    with pytest.raises(AssetError, match="no protein with a name and a backbone lies below"):
        chains([tmp_path])
    with pytest.raises(ParameterError, match=r"residues is \(50, 40\)"):
        chains([tmp_path], residues=(50, 40))


def test_the_first_k_proteins_are_those_of_a_smaller_call(tmp_path, monkeypatch):
    for i in range(6):
        write(tmp_path, f"{i}.pdb", header(f"9AA{i}", f"NAME {i}"), numbered(sequence(i)))
    monkeypatch.setattr(structures, "FOLDERS", ("one",))
    monkeypatch.setattr(structures, "locate", lambda id: tmp_path)
    of_all, of_four = proteins(seed=3)["id"][:], proteins(4, seed=3)["id"][:]
    assert of_all[:4] == of_four
    assert len(set(of_all)) == 6
    assert of_all != proteins(seed=4)["id"][:]
    with pytest.raises(ParameterError, match="n is 7; the corpus holds 6 proteins"):
        proteins(7)
    with pytest.raises(ParameterError, match="seed is -1"):
        proteins(seed=-1)


@pytest.mark.assets
def test_the_default_corpus():
    found = proteins()
    assert len(found) == 103
    assert sum(entry == "6ZU5" for entry in found["entry"]) == 71
    texts = dict(zip(found["id"], found["text"], strict=True))
    assert texts["1UBI_A"] == "ubiquitin, a protein from Homo sapiens; keywords: chromosomal protein."
    lengths = [len(letters) for letters in found["sequence"]]
    assert min(lengths) >= 40
    assert max(lengths) <= 400
    resolved = [int(b.isfinite().all(-1).all(-1).sum()) for b in backbones(found)]
    assert all(0.9 * n <= r <= n for n, r in zip(lengths, resolved, strict=True))
