"""Do findings name the fault that was planted, at its line, with what its fix really saves?

``python -m benchmarks.advice`` runs every program with its fault and with the fix, records the one
with the fault, and compares.
"""
