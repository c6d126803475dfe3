"""Trace files that others published, read by opscope and by a few plain lines of Python.

``python -m tests.public_traces FOLDER`` reads every file in a folder and says where the two differ.
The files themselves are in no repository of ours.
"""
