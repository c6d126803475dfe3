"""The folder that comes first in ``PYTHONPATH`` of recorded child processes.

This folder is put on ``PYTHONPATH``. What is in it imports nothing of opscope before torch is
imported, so that other programs start as fast as ever.
"""
