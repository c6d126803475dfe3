"""The flight recorder: a ring that is always on, and the traces made of it."""
