"""HTTP: batches of records to a server."""
