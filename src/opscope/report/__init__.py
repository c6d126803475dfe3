"""One self-contained HTML page per trace, and what notebooks show.

The page's program is built from ``web/`` into ``report/bundle``; the modules here gather what it
shows. ``web/src/contract.ts`` describes the data between the two.
"""
