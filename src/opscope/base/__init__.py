"""Foundations of all rooms: text, quantities, threads, files, locks, artefacts of processes."""
