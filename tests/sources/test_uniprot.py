import pytest
import torch
from safetensors.torch import save_file

from readout.errors import AssetError, NonFiniteError, ParameterError, TextError, TooFewError
from readout.sources.uniprot import FIELDS, stored_features, uniprot

UBIQUITIN = [
    "P0CG48",
    "UBC_HUMAN",
    "Polyubiquitin-C",
    "UBC",
    "Homo sapiens",
    "FUNCTION: Degrades.",
    "1UBI;1UBQ;",
]
TRYPSIN = ["P00760", "TRY1_BOVIN", 'Serine protease "1"', "PRSS1", "Bos taurus", "", "1GBT;"]
BARE = ["P1", "X", "Protein", "", "", "", ""]


def table(tmp_path, *rows, heads=tuple(FIELDS)):
    path = tmp_path / "proteins.tsv"
    path.write_text("\n".join("\t".join(row) for row in (heads, *rows)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("heads", [tuple(FIELDS), tuple(FIELDS.values())])
def test_a_protein_is_a_row_with_a_text(tmp_path, heads):
    found = uniprot(table(tmp_path, UBIQUITIN, TRYPSIN, BARE, heads=heads))
    assert found[0] == {
        "id": "P0CG48",
        "name": "Polyubiquitin-C",
        "genes": "UBC",
        "organism": "Homo sapiens",
        "function": "Degrades.",
        "text": "Polyubiquitin-C (gene UBC) from Homo sapiens. Degrades.",
        "structures": ["1UBI", "1UBQ"],
    }
    assert found["text"][1:] == ['Serine protease "1" (gene PRSS1) from Bos taurus.', "Protein."]
    assert found.info.description == "3 proteins in the file; left out: none"


def test_rows_of_one_protein_become_one_and_are_counted(tmp_path):
    again = [*UBIQUITIN[:6], "2K39"]
    renamed = ["P62987", "X", "POLYUBIQUITIN-C", "", "Homo sapiens", "", "9ABC"]
    elsewhere = ["P0CH28", "UBC_BOVIN", "Polyubiquitin-C", "UBC", "Bos taurus", "", ""]
    found = uniprot(table(tmp_path, UBIQUITIN, again, TRYPSIN, again, renamed, elsewhere))
    assert found["id"][:] == ["P0CG48", "P00760", "P0CH28"]
    assert found[0]["structures"] == ["1UBI", "1UBQ", "2K39", "9ABC"]
    assert found.info.description == (
        "3 proteins in the file; left out: same accession 2, same name and organism 1"
    )


def test_n_takes_the_first(tmp_path):
    path = table(tmp_path, UBIQUITIN, UBIQUITIN, TRYPSIN)
    assert uniprot(path, 1)["id"][:] == ["P0CG48"]
    for n in (0, 3):
        with pytest.raises(ParameterError, match=rf"n is {n}; .* holds 2 proteins"):
            uniprot(path, n)


def test_a_table_that_does_not_fit_is_named(tmp_path):
    with pytest.raises(AssetError, match="lacks the columns protein_name; it must be TSV"):
        uniprot(table(tmp_path, heads=[field for field in FIELDS if field != "protein_name"]))
    with pytest.raises(TextError, match="protein 'P1' has the name ''"):
        uniprot(table(tmp_path, ["P1", *[""] * 6]))
    with pytest.raises(AssetError, match="could not be read as TSV"):
        uniprot(tmp_path / "none.tsv")


def test_stored_features_come_in_the_order_asked_for(tmp_path):
    path = tmp_path / "esm3.safetensors"
    vectors = {id: torch.randn(6).bfloat16() for id in ("P1", "P2", "P3")}
    save_file(vectors, path)
    found = stored_features(path, ["P3", "P1", "P3"])
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.stack([vectors["P3"], vectors["P1"], vectors["P3"]]).float())


def test_stored_features_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "esm3.safetensors"
    stored = {
        "P1": torch.ones(4),
        "P2": torch.ones(3, 4),
        "P3": torch.ones(5),
        "P4": torch.tensor([0, 1, 2, torch.nan]),
    }
    save_file(stored, path)
    for ids, error, named in (
        ([], TooFewError, "ids is empty"),
        (["P1", "Q1", "Q2"], AssetError, "lacks 2 of 3 proteins, among them Q1"),
        (["P1", "P2"], AssetError, r"P2 has the shape \(3, 4\); one vector a protein, like \(4,\)"),
        (["P2", "P2"], AssetError, r"P2 has the shape"),
        (["P1", "P3"], AssetError, r"P3 has the shape \(5,\)"),
        (["P1", "P4"], NonFiniteError, "the features of P4 hold NaN"),
    ):
        with pytest.raises(error, match=named):
            stored_features(path, ids)
    for name, content in (("none", None), ("text", "no safetensors")):
        if content:
            (tmp_path / name).write_text(content)
        with pytest.raises(AssetError, match=f"{name}' could not be read as safetensors"):
            stored_features(tmp_path / name, ["P1"])
