import pytest
from gemmi import cif

from readout.sources.headers import Molecule, mmcif_header, pdb_header

PDB = """\
HEADER    COMPLEX (RECEPTOR/PEPTIDE)              01-JAN-99   9ABC
COMPND    MOL_ID: 1;
COMPND   2 MOLECULE: PROTEIN (T-CELL RECEPTOR ALPHA);
COMPND   3 CHAIN: D, A;
COMPND   4 MOL_ID: 2;
COMPND   5 MOLECULE: GLUTAMATE
COMPND   6 RECEPTOR 3;
COMPND   7 CHAIN: B;
SOURCE    MOL_ID: 1;
SOURCE   2 ORGANISM_SCIENTIFIC: HOMO SAPIENS;
SOURCE   3 ORGANISM_TAXID: 9606;
SOURCE   4 MOL_ID: 2;
KEYWDS    RECEPTOR, MEMBRANE,
KEYWDS   2 PEPTIDE
ATOM      1  N   MET A   1      27.340  24.430   2.614  1.00  9.67           N
COMPND    NOT A HEADER
"""
MMCIF = """\
data_9XYZ
_entry.id 9xyz
_struct_keywords.text 'RIBOSOME, Hibernation'
loop_
_entity.id
_entity.pdbx_description
1 'Ribosomal protein uL2'
2 'SPIKE PROTEIN'
3 water
loop_
_entity_poly.entity_id
_entity_poly.pdbx_strand_id
1 'LA0, LB0'
2 C
loop_
_entity_src_gen.entity_id
_entity_src_gen.pdbx_gene_src_scientific_name
2 'HOMO SAPIENS'
_entity_src_nat.entity_id 1
_entity_src_nat.pdbx_organism_scientific 'Paranosema locustae'
"""


def test_each_chain_of_a_pdb_file_has_the_name_and_organism_of_its_molecule():
    header = pdb_header(PDB)
    assert (header.entry, header.keywords) == ("9ABC", "receptor, membrane, peptide")
    alpha, receptor = Molecule("t-cell receptor alpha", "Homo sapiens"), Molecule("glutamate receptor 3", "")
    assert header.molecules == {"D": alpha, "A": alpha, "B": receptor}
    assert header.of_chain("Z") == Molecule("", "")


@pytest.mark.parametrize(
    ("source", "organism"),
    [("HUMAN (HOMO SAPIENS) ERYTHROCYTES", "Homo sapiens"), ("ESCHERICHIA COLI", "Escherichia coli")],
)
def test_an_old_file_names_one_molecule_for_every_chain(source, organism):
    header = pdb_header(f"COMPND    TRYPSIN (E.C.3.4.21.4)\nSOURCE    {source}\n")
    assert header.of_chain("A") == header.of_chain("B") == Molecule("trypsin (e.c.3.4.21.4)", organism)


def test_a_header_by_another_program_names_nothing():
    header = pdb_header("HEADER    " + "MADE BY A PROGRAM " * 4 + "\nREMARK 1\n")
    assert (header.entry, header.keywords, header.molecules) == ("", "", {})


def test_an_mmcif_file_names_its_polymers_by_strand():
    header = mmcif_header(cif.read_string(MMCIF).sole_block())
    ribosomal = Molecule("Ribosomal protein uL2", "Paranosema locustae")
    assert header.molecules == {
        "LA0": ribosomal,
        "LB0": ribosomal,
        "C": Molecule("spike protein", "Homo sapiens"),
    }
    assert (header.entry, header.keywords) == ("9XYZ", "RIBOSOME, Hibernation")


def test_an_mmcif_file_without_a_header_names_nothing():
    header = mmcif_header(cif.read_string("data_x\n_cell.length_a 1\n").sole_block())
    assert (header.entry, header.keywords, header.molecules) == ("", "", {})
