"""Tables, figures, verdicts and provenance: everything that comes after the lenses."""
