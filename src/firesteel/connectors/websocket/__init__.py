"""Websockets: messages of a server as a source."""
