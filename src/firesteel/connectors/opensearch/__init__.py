"""OpenSearch: documents of indices as a sink."""
