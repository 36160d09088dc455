"""What counts as rounding of 64-bit floats where steps are chosen; certificates have bounds instead."""

ROUNDING = 1e-13  # of the terms of a sum: a smaller change is no more than rounding
BEYOND_ROUNDING = 1e-6  # ... and a larger one is more: the matrix is not what it was said to be
DOUBLE_BELOW_TOL = 1e-5  # the tolerance below which dual variables are stored as 64-bit floats
