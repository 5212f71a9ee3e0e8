import pytest

from readout.errors import ParameterError
from readout.pipeline import settings


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("study:\n  tiny: {rate: 1e-3, flag: true, lang: no, layers: [0, 1]}\n  depth: 3\n")
    return path


def test_a_section_is_read_as_yaml_1_2(file):
    assert settings.section(f"{file}:study.tiny") == {
        "rate": 0.001,
        "flag": True,
        "lang": "no",
        "layers": [0, 1],
    }


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("study.tyni", "no section 'tyni'; known here: tiny, depth"),
        ("stdy.tiny", "no section 'stdy'; known here: study"),
        ("study.depth", "is 3; expected a section"),
        ("study.depth.x", "no section 'x'; known here: none"),
        ("", "expected FILE:SECTION"),
    ],
)
def test_an_unknown_section_is_answered_with_the_known_ones(file, section, message):
    with pytest.raises(ParameterError, match=message):
        settings.section(f"{file}:{section}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 1: .*; expected YAML"),
        ("a: 1\na: 2", 'line 2: found duplicate key "a"'),
        ("a: !!python/none x", "YAML"),
    ],
)
def test_a_broken_file_is_named_in_one_line(tmp_path, text, message):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message) as caught:
        settings.section(f"{path}:a.b")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ParameterError, match=r"none\.yaml: No such file"):
        settings.section(f"{tmp_path}/none.yaml:a")


@pytest.mark.parametrize("text", ["n", "=3", "a b=3", "n=[1", "n=a: b: c"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(ParameterError, match="--set"):
        settings.assignments([text])
