"""Files as sources and sinks: what there is to read, in splits, and what is written, in part files."""
