"""The mathematics: penalties, problems, certificates, rounding, in NumPy. Knows no streams and no files."""
