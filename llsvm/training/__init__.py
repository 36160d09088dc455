"""One run: data read, a solver's passes watched over, the result made into a model."""
