"""Callbacks and profilers of training frameworks, one file each; importing one needs its host."""
