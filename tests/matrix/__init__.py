"""`make matrix`: the tests on every torch and every Python that can be had; see ``__main__``."""
