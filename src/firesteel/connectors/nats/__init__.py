"""NATS: streams of JetStream as a source and as a sink."""
