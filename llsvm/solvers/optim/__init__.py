"""Optimization that methods share: linear systems, conjugate gradients, line searches, proximal points."""
