"""LLSVM: dual coordinate descent over blocks, with survivors."""
