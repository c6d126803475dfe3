"""What is known of the program and its process beside its events."""
