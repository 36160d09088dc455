"""Tools for developers: data generators, benchmarks, checks. Not installed with the package."""
