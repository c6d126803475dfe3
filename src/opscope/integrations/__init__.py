"""Callbacks and profilers for training frameworks, one file each, which needs its framework."""
