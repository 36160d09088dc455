"""Benchmarks of llsvm beside its peers: ``python -m tools.bench --help``."""
