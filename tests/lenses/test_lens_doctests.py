import doctest
import importlib
import pkgutil

import pytest

import readout.lenses
import readout.sources.augment

MODULES = [f"readout.lenses.{m.name}" for m in pkgutil.iter_modules(readout.lenses.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "readout.sources.augment"])
def test_examples_in_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_short_api_is_complete():
    assert all(getattr(readout.lenses, name) for name in readout.lenses.__all__)
    assert readout.lenses.__all__ == sorted(readout.lenses.__all__)
