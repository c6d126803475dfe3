"""Which lines of the program the code is of that torch.compile generated."""
