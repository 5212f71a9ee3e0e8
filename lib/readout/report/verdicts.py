"""What an interval says about a claim."""


def verdict(low: float, high: float, *, above: float | None = None, below: float | None = None) -> str:
    """`holds` if the whole interval lies on the claimed side, `fails` if on the other, else `undecided`.

    >>> verdict(0.2, 0.4, above=0.0), verdict(-0.4, -0.2, above=0.0), verdict(-0.1, 0.1, above=0.0)
    ('holds', 'fails', 'undecided')
    >>> verdict(-0.4, -0.2, below=0.0)
    'holds'
    """
    if (above is None) == (below is None):
        raise TypeError("verdict: give exactly one of `above` and `below`")
    if below is not None:
        low, high, above = -high, -low, -below
    return "holds" if low > above else "fails" if high < above else "undecided"
