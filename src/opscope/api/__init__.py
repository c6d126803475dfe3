"""What users hold: recordings of one process and of several, read from disk or just made."""
