"""Programs that count what they do and die of it, recorded: what is in the file is what they did.

    cd tests && python -m deaths --count 1000

A process imports torch once and forks the programs, so that a death takes a fraction of a second.
"""
