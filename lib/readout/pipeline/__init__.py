"""A notebook is one question and one stage: run it, fingerprint its code, and say why it is stale.

Nothing here imports torch, so that a wrong parameter is refused before any work starts.
"""
