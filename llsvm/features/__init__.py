"""From raw columns to numbers: labels, categories, scaling, feature maps. Knows no file format and no solver.

Readers and the stream enter here while they learn; a model does when it scores, since what was learned is part of
it. ``frames`` is for data frames that callers hold, ``table_options`` for what users say of a table's columns.
"""
