"""From raw columns to numbers: labels, categories, scaling, feature maps. Knows no file format and no solver."""
