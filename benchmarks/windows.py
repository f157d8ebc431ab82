"""Windows: how many times faster than PyFlink the same unchanged program counts records per key and window.

Tumbling windows, sliding windows of which every record is in 96, and sessions; see ``programs/windows.py``. PyFlink is
tuned as in ``vs_pyflink``. The rate is the difference in records between two sizes over the difference in seconds,
so that starting up costs nothing, and both engines must print the same results.
"""

from __future__ import annotations

from _contest import Duel, duel
from _harness import parser
from _results import begin

FULL = (
    Duel("windows tumbling", (1_000_000, 7_000_000), (20_000, 120_000)),
    Duel("windows sliding", (500_000, 4_000_000), (1_000, 13_000)),
    Duel("windows sessions", (500_000, 4_000_000), (2_000, 22_000)),
)
QUICK = (
    Duel("windows tumbling", (500_000, 3_500_000), (10_000, 60_000)),
    Duel("windows sliding", (300_000, 2_000_000), (1_000, 7_000)),
    Duel("windows sessions", (300_000, 2_000_000), (2_000, 12_000)),
)


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, help="repetitions of everything; medians are shown")
    arguments = found.parse_args()
    results = begin(
        __file__, "Counts per key and window: Firesteel against PyFlink, parallelism 2 on both", arguments
    )
    repeat = arguments.repeat or (1 if arguments.quick else 2)
    rows: list[list[str]] = []
    for contest in QUICK if arguments.quick else FULL:
        rows += duel(contest, repeat)[1]
    results.table(["program", "engine", "records/s", "Firesteel is", "target"], rows)


if __name__ == "__main__":
    main()
