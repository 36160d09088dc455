"""State of a run, kept in a folder, which a run that was stopped goes on from. Start reading at ``checkpoints``."""
