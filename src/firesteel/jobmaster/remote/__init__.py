"""How other processes find the jobs of this one: a registry of those that run, and a history of those that have ended."""
