"""Page of ``llsvm report``: plots below, a file for each kind of section, and ``page``, which joins them."""
