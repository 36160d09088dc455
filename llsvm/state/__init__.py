"""The state of a run, kept in a folder: what a run that was stopped goes on from. ``checkpoints`` is the way in."""
