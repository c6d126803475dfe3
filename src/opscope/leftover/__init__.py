"""What processes leave in a folder: opening it safely, and whose it is."""
