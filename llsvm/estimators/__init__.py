"""scikit-learn's estimators: one file each, and base.py, which all of them are made of. ``llsvm`` has them by name."""
