"""The sequential dual method: joint multi-class problems (Crammer-Singer, Weston-Watkins)."""
