"""Many processes as one recording, and what only several together can answer."""
