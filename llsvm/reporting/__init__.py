"""The page of ``llsvm report``: Markup and Plot below, a file for each kind of section, page.py that joins them."""
