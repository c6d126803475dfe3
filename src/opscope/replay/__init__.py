"""Runs the operators of a trace again, to measure their time on this machine."""
