import pytest

from readout.sources.sotu import clean


@pytest.mark.parametrize(
    ("dropped", "kept"),
    [
        ("To the Senate and House of Representatives:", "This is a sentence."),
        ("JAMES MONROE", "JAMES is a name."),
        ("PATENTS .", "Patents are up."),
        ("Other activities 4,552 5,813", "Other activities cost 4,552."),
        ("Audience members. Boo!", "The audience left."),
        ("[Laughter]", "He said “Yes.”"),
    ],
)
def test_what_is_no_sentence_is_dropped(dropped, kept):
    assert clean(f"{kept}\n\n{dropped}\n\n{kept}") == f"{kept} {kept}"


def test_long_unfinished_paragraphs_stay_and_white_space_is_folded():
    listed = "that the several States shall keep\t the roads in order for ever and ever;"
    assert clean(f"  We ask  \n{listed}\n") == " ".join(listed.split())
