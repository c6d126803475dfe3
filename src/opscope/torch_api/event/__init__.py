"""One event, or the average of several, in torch.profiler's shape."""
