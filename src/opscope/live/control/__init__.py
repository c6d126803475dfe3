"""Requests to a running process: the socket that it listens at, and its clients."""
