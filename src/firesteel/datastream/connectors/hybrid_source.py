"""A source that continues with another source, at PyFlink's import path."""

from firesteel.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
