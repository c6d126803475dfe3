"""Asking a process that runs: the socket that it listens at, and who asks."""
