"""The choice of C: folds, scores of held-out rows, candidates trained many at a time, and what is chosen."""
