"""MQTT: topics as a source and as a sink. Needs ``firesteel[mqtt]``."""

from __future__ import annotations

from firesteel.connectors.mqtt.sink import MqttSink
from firesteel.connectors.mqtt.source import MqttMessage, MqttSource

__all__ = ["MqttMessage", "MqttSink", "MqttSource"]
