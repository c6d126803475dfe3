"""The first folder in ``PYTHONPATH`` of child processes.

Its files import opscope only once the process imports torch, so other programs start as fast as
without it.
"""
