"""NESVM: Nesterov's method on smoothed losses, linear and with kernels."""
