"""Websockets: messages of a server as a source. Needs ``firesteel[websocket]``."""

from __future__ import annotations

from firesteel.connectors.websocket.source import WebSocketSource

__all__ = ["WebSocketSource"]
