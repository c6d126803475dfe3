"""Recordings around, outside and after the program: flight recorder, control, children."""
