"""Source lines of code that torch.compile generated."""
