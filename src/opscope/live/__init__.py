"""Recordings without a ``with`` block: flight recorder, attach, child processes."""
