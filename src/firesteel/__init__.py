"""Apache Flink's model in Python, executed by Apache Spark."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0.1.0"


class _MissingModules:
    """Comes last: it is asked only for modules that nobody else has found. Some of them are missed with a sentence."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, or the sentence."""
        if fullname.startswith("firesteel."):
            from firesteel.common._missing_modules import refuse

            refuse(fullname)
        return None


sys.meta_path.append(_MissingModules)
