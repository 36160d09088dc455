"""SmSVM: smoothed Newton with an L1 active set."""
