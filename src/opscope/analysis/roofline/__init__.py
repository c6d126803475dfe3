"""Roofline: achieved against peak FLOP/s and bandwidth of operators."""
