"""Recordings without a ``with`` block: flight recorder, control from outside, child processes."""
