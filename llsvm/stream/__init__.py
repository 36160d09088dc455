"""All that a solver sees of the world: the first reading, passes, survivors, dual variables."""
