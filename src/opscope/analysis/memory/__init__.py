"""Memory over time and at its peak, by category and owner."""
