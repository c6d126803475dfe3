"""Random programs under random recordings that count for themselves what they do.

`make torture` runs them for as long as asked, each in a process of its own that may crash or
hang; ``tests/integration/test_torture.py`` runs a few. What a program knows of itself is in
``history.py``: which windows were surely, and which possibly, open when it did something.
``expectations.py`` turns that into how often a trace must, and may, hold each thing;
``invariants.py`` and ``views.py`` check the rest.
"""
