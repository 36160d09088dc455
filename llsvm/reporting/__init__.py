"""The page of ``llsvm report``: Plot and Axis below, a file for each kind of section, page.py that joins them."""
