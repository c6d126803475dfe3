"""What waited for what, the longest chain of it, and replays."""
