"""MQTT: topics as a source with acknowledgement at checkpoints, and as a sink."""
