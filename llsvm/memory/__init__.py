"""The memory limit: sizes, what the process holds, the ledger. Knows nothing of rows or solvers."""
