"""Tables, intervals, figures and verdicts: everything that comes after the lenses."""
