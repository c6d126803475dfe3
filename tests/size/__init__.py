"""How large the project is: lines of code by room, and what users can name. See ``__main__``."""
