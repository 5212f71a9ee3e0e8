import pytest

from readout.errors import ParameterError
from readout.paths import root


def test_the_root_is_the_nearest_folder_with_a_pipeline(tmp_path):
    inner = tmp_path / "queued" / "copy"
    (inner / "notebooks").mkdir(parents=True)
    (tmp_path / "dvc.yaml").touch()
    assert root(inner / "notebooks" / "a.ipynb") == tmp_path
    (inner / "dvc.yaml").touch()
    root.cache_clear()
    assert root(inner / "notebooks" / "a.ipynb") == inner


def test_outside_a_project_the_error_says_what_is_missing(tmp_path):
    with pytest.raises(ParameterError, match=r"no dvc\.yaml"):
        root(tmp_path)


def test_without_a_start_it_is_that_of_the_working_directory_or_of_the_library(tmp_path, monkeypatch):
    root.cache_clear()
    monkeypatch.chdir(tmp_path)
    assert (root() / "lib" / "readout" / "paths.py").is_file()
    root.cache_clear()
