"""The part compiled against torch: finding, compiling and loading it."""
