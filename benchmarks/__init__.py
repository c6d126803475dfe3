"""opscope against torch.profiler, side by side in one run: ``python -m benchmarks``."""
