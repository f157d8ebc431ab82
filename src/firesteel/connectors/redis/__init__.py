"""Redis (and Valkey): streams as a source, any commands as a sink."""
