"""Cassandra: rows as a sink."""
