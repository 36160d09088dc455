"""SMO: kernel machines by working sets of one or two rows, then Newton's method on the free ones."""
