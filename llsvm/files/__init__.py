"""Files near and far: reading, writing, compressed, remote. Knows nothing of rows; any room may use it."""
