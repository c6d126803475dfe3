"""How results are printed: four renderers, and what commands share of their text."""
