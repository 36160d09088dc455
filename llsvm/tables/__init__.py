"""Tables: what CSV, Parquet and Arrow files have in common. Columns in, blocks out."""
