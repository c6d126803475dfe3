"""What memory was in use, when, what it was for and who allocated it."""
