"""What the notebooks on authorship measure: where sources, states, scorers and lenses meet."""
