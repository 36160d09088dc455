"""Scoring of data larger than memory: a model's scores block by block, as labels, and how good they are."""
