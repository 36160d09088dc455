"""What the program owes its process: signals answered, leftovers cleared, text that is safe on a terminal."""

VERSION = "0.1.0"  # of this package, as in pyproject.toml
