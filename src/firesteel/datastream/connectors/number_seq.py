"""A bounded sequence of numbers, mainly for tests and examples."""

from firesteel.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
