"""Side-output tags; at PyFlink's path."""

from firesteel.contracts.output_tag import OutputTag

__all__ = ["OutputTag"]
