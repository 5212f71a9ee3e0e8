import pytest

from readout.errors import ParameterError
from readout.pipeline import files


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not JSON"), ("[]", "not a notebook of format 4"), (None, "No such file")]
)
def test_what_is_no_notebook_is_named_in_one_line(tmp_path, text, message):
    path = tmp_path / "a.ipynb"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ParameterError, match=message) as caught:
        files.read_notebook(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "new" / "a.txt"
    files.replace_text(path, "old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        files.replace_text(path, "half")
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"
