"""Verification: what a model's certificate says, worked out again from model and data, in plain float64 NumPy.

Nothing here imports the trainer: no solver, none of the mathematics that solvers work with (losses, penalties,
problems), and not the stream of rows that they see; tools/check_layers.py sees to that. The formulas are written
down once more, from the definitions in the guides. Rows come from the readers, scaled and rounded to 32-bit floats
as they are for training; so the kernels that parse and scale rows are loaded, and no others. ``llsvm.verify`` is
the way in.
"""
