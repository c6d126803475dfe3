"""The HTML report: one self-contained page per trace.

The page's program is built from ``web/`` into ``report/bundle``; the modules here make its data,
which ``web/src/contract.ts`` describes.
"""
