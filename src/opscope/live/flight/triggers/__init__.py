"""What makes a flight recorder write a dump, one kind per file."""
