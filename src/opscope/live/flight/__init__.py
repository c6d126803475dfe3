"""The flight recorder: a ring that is always on, and what makes a trace of it."""
