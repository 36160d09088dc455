"""Multinomial logistic regression (softmax): truncated Newton over the stream."""
