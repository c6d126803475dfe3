"""Dynolog's daemon: `dyno gputrace` reaches a program that records with opscope."""
