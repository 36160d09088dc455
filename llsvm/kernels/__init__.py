"""Compiled loops that several rooms share: parsing, packing, checksums, statistics of columns, scores, products.

Any room but ``files``' readers of addresses may enter, late: importing a kernel loads Numba. A solver's own kernels
are in its folder. Every file stands for itself (see ``options``): it imports nothing compiled, only ``intrinsics``.
A kernel costs each new user about a second of compiling, so there are few.
"""
