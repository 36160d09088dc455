"""What the solvers of kernel machines share: the kernel matrix, the problems' rows, the certificate, a run."""
