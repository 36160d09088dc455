"""Models, which training returns: the model, its file, LIBLINEAR's format, ONNX. Knows no solver.

Whoever scores or shows a model enters here; training enters to make one.
"""
