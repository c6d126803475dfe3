"""``python -m opscope`` is the same as the ``opscope`` command."""

from opscope.cli import main

if __name__ == "__main__":
    main()
