"""Linear models as ONNX: rows become scores (``rows``), scores labels and probabilities; ``export`` writes the
file. The onnx package is loaded by ``graph`` alone, when something is exported."""
