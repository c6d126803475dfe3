"""The folder that comes first in ``PYTHONPATH`` of recorded child processes.

Its files import nothing of opscope before torch is imported, so that other programs start as fast
as without it.
"""
