"""Verification: what a model's certificate says, worked out again from model and data, in plain float64 NumPy.

Nothing here imports a solver, or the mathematics that solvers work with (losses, penalties, problems): the
formulas are written down once more, from the definitions in the guides. Rows come from the readers, scaled and
rounded to 32-bit floats as they are for training, by way of a Stream; so the kernels that parse, scale and move
rows are loaded, and no others. ``llsvm.verify`` is the way in.
"""
