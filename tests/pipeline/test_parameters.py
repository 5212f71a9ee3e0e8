import pytest

from readout.errors import ParameterError
from readout.pipeline.parameters import check, defaults, of_notebook, parse

CELL = """from typing import Literal
n: int = 4  # texts; paper: 10000; >= 1
share: float = 0.5  # in (0, 1]
layers: list[int] = [0, 6]  # >= 0; < 12
rates: list[float] = [0.1]
names: list[str] = ['#1 a; >= 2']
model: str = "tiny"  # which model
plot: bool = False
kind: Literal["mean", "max", 2] = "mean"
cut: float | None = None  # > 0
"""
PARAMETERS = parse(CELL)


def test_every_line_is_read_with_its_default():
    assert defaults(PARAMETERS) == {
        "n": 4,
        "share": 0.5,
        "layers": [0, 6],
        "rates": [0.1],
        "names": ["#1 a; >= 2"],
        "model": "tiny",
        "plot": False,
        "kind": "mean",
        "cut": None,
    }
    assert [str(bound) for bound in PARAMETERS["share"].bounds] == ["> 0", "<= 1"]
    assert PARAMETERS["names"].bounds == ()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", 1, 1),
        ("n", 10**400, 10**400),
        ("share", 1, 1.0),
        ("layers", [], []),
        ("rates", [1, 0.5], [1.0, 0.5]),
        ("model", "1", "1"),
        ("plot", True, True),
        ("kind", 2, 2),
        ("cut", 3, 3.0),
        ("cut", None, None),
    ],
)
def test_a_right_value_is_kept_and_only_integers_become_floats(name, value, expected):
    got = check(PARAMETERS, {name: value})[name]
    assert got == expected
    assert repr(got) == repr(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", 0, "n = 0: out of range; expected >= 1"),
        ("n", 1.5, "n = 1.5: expected int"),
        ("n", 2.0, "n = 2.0: expected int"),
        ("n", True, "n = True: expected int"),
        ("n", "3", "n = '3': expected int, written without quotes"),
        ("n", None, "n = None: expected int"),
        ("share", "1e-3", "share = '1e-3': expected float, written without quotes"),
        ("share", 10**400, "share = 10+: expected float"),
        ("share", 0, "share = 0: out of range; expected > 0 and <= 1"),
        ("share", float("nan"), "share = nan: expected a finite number"),
        ("cut", float("inf"), "cut = inf: expected a finite number"),
        ("cut", -1, r"cut = -1: out of range; expected > 0"),
        ("layers", [0, 12], r"layers = \[0, 12\]: out of range; expected >= 0 and < 12"),
        ("layers", [0, "1"], r"layers = \[0, '1'\]: expected list\[int\]"),
        ("layers", 3, r"layers = 3: expected list\[int\]"),
        ("model", 1, "model = 1: expected str, written in quotes"),
        ("plot", "false", "plot = 'false': expected bool, written without quotes"),
        ("plot", 0, "plot = 0: expected bool"),
        ("kind", "men", r"kind = 'men': expected Literal\['mean', 'max', 2\]"),
        ("kind", 2.0, "kind = 2.0: expected Literal"),
        ("shar", 1, "shar = 1: unknown parameter; did you mean share"),
        ("zzz", 1, "zzz = 1: unknown parameter; Known: n, share, layers"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(name, value, message):
    with pytest.raises(ParameterError, match=f"^{message}") as caught:
        check(PARAMETERS, {name: value})
    assert "\n" not in str(caught.value)


def test_values_come_in_declared_order_so_that_records_do_not_depend_on_the_file():
    assert list(check(PARAMETERS, {"plot": True, "n": 1})) == ["n", "plot"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("n = 3", "expected `name: type = default`"),
        ("n: int", "expected `name: type = default`"),
        ("print(1)", "expected `name: type = default`"),
        ("n: dict = {}", "dict is not a supported type"),
        ("n: list[Path] = []", "not a supported type"),
        ("n: int = 2 * 3", "expected a literal"),
        ("n: int = '3'", "n = '3': expected int"),
        ("n: int = 0  # > 0", "out of range"),
        ("n: int = 1\nn: int = 2", "declared twice"),
        ("n: int = 3  # texts; >= one", "cannot read the range '>= one'"),
        ("n: int = 3  # > 1.2.3", "cannot read the range"),
        ("n: int = 3  # in [1, 2", "cannot read the range"),
        ("n: int = ", "line 1: invalid syntax"),
    ],
)
def test_a_parameters_cell_in_another_form_is_refused(cell, message):
    with pytest.raises(ParameterError, match=message):
        parse(cell)


def test_one_cell_is_tagged_and_a_notebook_without_one_takes_nothing():
    cell = {"cell_type": "code", "source": ["n: int = 1\n"], "metadata": {"tags": ["parameters"]}}
    assert defaults(of_notebook({"cells": [cell]})) == {"n": 1}
    assert of_notebook({"cells": [{"cell_type": "code", "source": "n = 1"}]}) == {}
    with pytest.raises(ParameterError, match="2 cells are tagged"):
        of_notebook({"cells": [cell, cell]})
