"""What counts as rounding of 64-bit floats where steps are chosen; certificates have bounds instead."""

# Share of the terms of a sum up to which a change is nothing but rounding; also the least ridge of an indefinite
# matrix (lapack.py). Lower takes rounding for progress, higher ends before the last digits are right.
ROUNDING = 1e-13
# Share of the terms of a sum from which an error is more than rounding: a kernel matrix is then not symmetric, or
# not positive semidefinite, and an error. smo/newton.py also takes it for the ridge of such a matrix. Lower refuses
# matrices of rounded values, higher takes some that are not of a kernel.
BEYOND_ROUNDING = 1e-6
# Tolerance below which dual variables are stored as 64-bit floats, whatever C is, and llsvm keeps all copies of the
# weights. Lower leaves gaps that 32-bit floats cannot close; higher doubles the stored bytes of runs without need.
DOUBLE_BELOW_TOL = 1e-5
