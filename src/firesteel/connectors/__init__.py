"""Sources and sinks for the systems a job reads from and writes to; built on contracts only."""
