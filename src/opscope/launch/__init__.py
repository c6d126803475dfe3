"""Running the user's program."""
