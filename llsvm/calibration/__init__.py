"""What follows from scores of rows that a model was not trained on: probabilities of classes, and thresholds."""
