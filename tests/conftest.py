"""Shapes and types in the library's signatures are checked at run time while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("readout", "beartype.beartype").__enter__()
