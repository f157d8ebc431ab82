"""Protobuf; not in PyFlink's DataStream API."""

from __future__ import annotations

from firesteel.formats.protobuf import ProtobufSchema

__all__ = ["ProtobufSchema"]
