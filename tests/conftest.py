"""Shapes and types in the library's signatures are checked at run time while the tests run."""

import os

from jaxtyping import install_import_hook

install_import_hook("readout", "beartype.beartype").__enter__()

# Bars would end up in the outputs of the notebooks that are run here.
os.environ["TQDM_DISABLE"] = "1"
