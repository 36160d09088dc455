"""The memory limit: sizes in bytes, what the process holds, the budget and the plan. Nothing here handles rows."""
