"""What drivers and tasks log: levels, the form of a line, files; Python's own logging does the rest."""
