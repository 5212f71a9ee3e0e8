"""What an interval says about a claim."""


def verdict(
    low: float,
    high: float,
    *,
    above: float | None = None,
    below: float | None = None,
    within: float | None = None,
) -> str:
    """`holds` if the whole interval lies on the claimed side, `fails` if nothing of it does, else `undecided`.

    within: closer to 0 than this, for a claim that two things are about the same.

    >>> verdict(0.2, 0.4, above=0.0), verdict(-0.4, -0.2, above=0.0), verdict(-0.1, 0.1, above=0.0)
    ('holds', 'fails', 'undecided')
    >>> verdict(-0.4, -0.2, below=0.0)
    'holds'
    >>> verdict(-0.04, 0.02, within=0.05), verdict(0.06, 0.1, within=0.05), verdict(-0.1, 0.1, within=0.05)
    ('holds', 'fails', 'undecided')
    >>> verdict(0.0, 0.0, above=0.0)
    'fails'
    """
    if [above, below, within].count(None) != 2:
        raise TypeError("verdict: give exactly one of `above`, `below` and `within`")
    if within is not None:
        if -within < low and high < within:
            return "holds"
        return "fails" if low >= within or high <= -within else "undecided"
    if below is not None:
        low, high, above = -high, -low, -below
    return "holds" if low > above else "fails" if high <= above else "undecided"
