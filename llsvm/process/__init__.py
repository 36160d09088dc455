"""What the program owes its process: signals answered, leftovers cleared, text that is safe on a terminal."""
