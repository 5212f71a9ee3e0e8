r"""What a notebook can be told: its parameters cell, read strictly.

The cell tagged `parameters` holds one assignment a line, `name: type = default  # comment`. Types are
`int`, `float`, `str`, `bool`, `list[...]` of these, `Literal[...]`, and unions such as `float | None`.
The comment is free text; each part of it between semicolons that starts with a comparison or with `in`
is a range, which every number of the value must lie in:

    n_texts: int = 40             # texts; paper: 10000; >= 1
    share: float = 0.5            # in (0, 1]
    layers: list[int] = [0, 6]    # blocks; >= 0; < 12

>>> parameters = parse("n_texts: int = 40  # texts; >= 1\nshare: float = 0.5  # in (0, 1]")
>>> check(parameters, {"share": 1})
{'share': 1.0}
>>> check(parameters, {"n_text": 3})
Traceback (most recent call last):
readout.errors.ParameterError: n_text = 3: unknown parameter; did you mean n_texts? Known: n_texts, share
>>> check(parameters, {"n_texts": 0})
Traceback (most recent call last):
readout.errors.ParameterError: n_texts = 0: out of range; expected >= 1
"""

import ast
import io
import math
import operator
import re
import sys
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from readout.errors import ParameterError
from readout.pipeline.files import source, tags

_RELATIONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_COMPARISON = re.compile(rf"(>=|>|<=|<)\s*{_NUMBER}")
_INTERVAL = re.compile(rf"in\s*([\[(])\s*{_NUMBER}\s*,\s*{_NUMBER}\s*([\])])")
_RANGE_START = re.compile(r"[<>]|in\s*[\[(]")


@dataclass(frozen=True)
class Bound:
    """One side of a range, such as `>= 1`."""

    relation: str
    limit: float

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell."""

    name: str
    kind: str
    default: Any
    bounds: tuple[Bound, ...]


class _Mismatch(Exception):
    """A value does not have the declared type."""


def of_notebook(notebook: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters by name, none for a notebook without the tagged cell.

    Raises `ParameterError` for two tagged cells or a line that is not in the form above.
    """
    cells = [cell for cell in notebook["cells"] if "parameters" in tags(cell)]
    if len(cells) > 1:
        raise ParameterError(f"{len(cells)} cells are tagged `parameters`; expected one")
    return parse(source(cells[0])) if cells else {}


def parse(code: str) -> dict[str, Parameter]:
    """The parameters that the text of a parameters cell declares, by name, in its order.

    An import from `typing` is let through, since `Literal` needs one. Raises `ParameterError`.
    """
    try:
        body = ast.parse(code).body
    except SyntaxError as error:
        raise ParameterError(f"parameters cell, line {error.lineno}: {error.msg}") from None
    comments = _comments(code)
    found: dict[str, Parameter] = {}
    for line in body:
        if isinstance(line, ast.ImportFrom) and line.module == "typing":
            continue
        parameter = _parameter(line, comments.get(line.end_lineno or 0, ""))
        if parameter.name in found:
            raise ParameterError(f"{parameter.name}: declared twice; expected one line a parameter")
        found[parameter.name] = parameter
    return found


def check(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values in declared order, an integer made a float where one is declared.

    Nothing else is converted: `True` is no `int`, `1.0` is no `int`, `"3"` is no number.
    Raises `ParameterError` for an unknown name, a wrong type, a value out of range, NaN or infinity.
    """
    for name, value in given.items():
        if name not in parameters:
            raise ParameterError(f"{name} = {value!r}: unknown parameter; {_suggestion(name, parameters)}")
    return {name: _checked(p, given[name]) for name, p in parameters.items() if name in given}


def defaults(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The values that the notebook runs with when it is told nothing."""
    return {name: parameter.default for name, parameter in parameters.items()}


def _suggestion(name: Any, known: Mapping[str, Parameter]) -> str:
    close = get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}Known: {', '.join(known) or 'none'}"


def _comments(code: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _parameter(line: ast.stmt, comment: str) -> Parameter:
    match line:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=ast.expr() as value):
            pass
        case _:
            raise ParameterError(
                f"{ast.unparse(line)}: expected `name: type = default` in the parameters cell"
            )
    if not _is_supported(kind):
        raise ParameterError(
            f"{name}: {ast.unparse(kind)} is not a supported type; see readout.pipeline.parameters"
        )
    try:
        default = ast.literal_eval(value)
    except ValueError:
        raise ParameterError(f"{name} = {ast.unparse(value)}: expected a literal as the default") from None
    declared = Parameter(name, ast.unparse(kind), default, _bounds(name, comment))
    return Parameter(name, declared.kind, _checked(declared, default), declared.bounds)


def _bounds(name: str, comment: str) -> tuple[Bound, ...]:
    bounds: list[Bound] = []
    for part in map(str.strip, comment.lstrip("# ").split(";")):
        if one := _COMPARISON.fullmatch(part):
            bounds.append(Bound(one[1], float(one[2])))
        elif two := _INTERVAL.fullmatch(part):
            low, high = Bound(">=" if two[1] == "[" else ">", float(two[2])), float(two[3])
            bounds += [low, Bound("<=" if two[4] == "]" else "<", high)]
        elif _RANGE_START.match(part):
            raise ParameterError(f"{name}: cannot read the range {part!r}; expected `>= 1` or `in [0, 1]`")
    return tuple(bounds)


def _is_supported(kind: ast.expr) -> bool:
    match kind:
        case ast.Constant(value=None) | ast.Name(id="int" | "float" | "str" | "bool"):
            return True
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return _is_supported(item)
        case ast.Subscript(value=ast.Name(id="Literal")):
            return all(isinstance(choice, ast.Constant) for choice in _choices(kind))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_supported(left) and _is_supported(right)
    return False


def _choices(literal: ast.Subscript) -> list[ast.expr]:
    return literal.slice.elts if isinstance(literal.slice, ast.Tuple) else [literal.slice]


def _checked(parameter: Parameter, value: Any) -> Any:
    try:
        converted = _convert(ast.parse(parameter.kind, mode="eval").body, value)
    except _Mismatch:
        hint = _hint(parameter.kind, value)
        raise ParameterError(f"{parameter.name} = {value!r}: expected {parameter.kind}{hint}") from None
    for number in _numbers(converted):
        if isinstance(number, float) and not math.isfinite(number):
            raise ParameterError(f"{parameter.name} = {value!r}: expected a finite number")
        if not all(_RELATIONS[bound.relation](number, bound.limit) for bound in parameter.bounds):
            expected = " and ".join(map(str, parameter.bounds))
            raise ParameterError(f"{parameter.name} = {value!r}: out of range; expected {expected}")
    return converted


def _convert(kind: ast.expr, value: Any) -> Any:
    match kind, value:
        case (ast.Constant(value=None), None) | (ast.Name(id="bool"), bool()) | (ast.Name(id="str"), str()):
            return value
        case (ast.Name(id="int"), int()) if not isinstance(value, bool):
            return value
        case (ast.Name(id="float"), float()):
            return value
        case (ast.Name(id="float"), int()) if (
            not isinstance(value, bool) and abs(value) <= sys.float_info.max
        ):
            return float(value)
        case (ast.Subscript(value=ast.Name(id="list"), slice=item), list()):
            return [_convert(item, element) for element in value]
        case (ast.Subscript(value=ast.Name(id="Literal")), _):
            choices = [choice.value for choice in _choices(kind) if isinstance(choice, ast.Constant)]
            if any(type(value) is type(choice) and value == choice for choice in choices):
                return value
        case (ast.BinOp(left=left, right=right), _):
            try:
                return _convert(left, value)
            except _Mismatch:
                return _convert(right, value)
    raise _Mismatch


def _numbers(value: Any) -> list[int | float]:
    values = value if isinstance(value, list) else [value]
    return [number for number in values if isinstance(number, int | float) and not isinstance(number, bool)]


def _hint(kind: str, value: Any) -> str:
    if isinstance(value, str) and re.search(r"\b(int|float|bool)\b", kind):
        return ", written without quotes"
    if "str" in kind and not isinstance(value, list | dict):
        return ", written in quotes"
    return ""
