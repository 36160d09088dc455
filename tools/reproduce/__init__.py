"""The published tables, run again: ``python -m tools.reproduce NAME [--quick]``."""
