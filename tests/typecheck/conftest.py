"""Programs beside the tests can be imported; the wrong ones are for type checkers only."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["wrong_programs.py"]
