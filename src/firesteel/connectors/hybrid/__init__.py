"""Sources that are read one after the other."""
