"""The process that the program runs in: signals, leftovers, threads, libraries, and what a terminal shows."""

VERSION = "0.1.0"  # of this package, as in pyproject.toml
