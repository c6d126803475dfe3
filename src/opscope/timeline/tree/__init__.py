"""How events nest, and what one event is."""
