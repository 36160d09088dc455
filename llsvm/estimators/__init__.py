"""scikit-learn's estimators, one file each, made of what is in base.py. ``llsvm`` has them by name."""
