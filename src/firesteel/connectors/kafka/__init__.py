"""Kafka: sources and sinks, on the client library confluent-kafka (extra ``kafka``)."""
