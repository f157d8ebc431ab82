"""PostgreSQL's changes as a stream: logical replication."""
