"""What every Python process finds first that a program recorded with its children starts.

This folder is put on ``PYTHONPATH``. What is in it imports nothing of opscope before torch is
imported, so that other programs start as fast as ever.
"""
