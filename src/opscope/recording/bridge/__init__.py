"""The part that is compiled against torch: found, compiled, loaded."""
