"""What the notebooks on generated tokens measure: where sources, generation, states and lenses meet."""
