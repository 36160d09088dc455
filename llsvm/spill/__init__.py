"""Files for what does not fit in memory, pages of rows and dual variables. They vanish on every exit."""
