"""What the user asked for: the nodes and edges of a job, before anything is decided about running it."""
