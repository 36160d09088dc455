"""Options of training: what each may be, and what goes with what. Imports nothing heavy."""
