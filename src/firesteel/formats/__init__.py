"""Schemas that make records of bytes and bytes of records: JSON, CSV, Avro, Protobuf, messages about changes.

Programs import them from ``firesteel.datastream.formats``. Connectors deserialize through `decoding.decode`.
"""
