"""The mathematics that solvers share, free of streams and files.

penalty     l2, l1 and elastic net: conventions, value, dual
smoothed    sums of the smoothed hinge over rows: losses, gradient, Hessian, certificate
newton      the minimiser of a quadratic model with an L1 norm
linesearch  the exact line search for a quadratic plus an L1 norm
nesterov    accelerated gradient iterations
metric      the norm in which those measure lengths
conjugate   a Newton step by products with the Hessian, where it is too large to hold
jumps       multi-class dual variables move on along the ways that they came
bundle      the best dual point among mixtures of a few feasible ones
"""
