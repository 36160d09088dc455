"""Files near and far: reading, writing, compressed, remote; what tells that one has changed. Knows nothing of rows;
any room may use it.
"""
