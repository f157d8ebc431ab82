"""Accumulators, beside the runtime context that registers them."""

from firesteel.common.accumulators import Accumulator

__all__ = ["Accumulator"]
