"""Facts about the program and its process."""
