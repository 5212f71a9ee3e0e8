"""Models and corpora: what is registered, where it lies, and how it is loaded."""
