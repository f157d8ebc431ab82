"""Records in a store of the user's own, and views of them, against copies of a dictionary."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.state.cached import custom_records
from firesteel.state.cached.custom_records import CheckedStore, CustomRecords
from firesteel.state.cached.record_store import RecordView
from firesteel.testing.state_stores import DictStore
from firesteel_support.effort import cases

CASES = cases(400, 5_000)


def record_key(number: int) -> bytes:
    return bytes([number // 256, number % 256])


class Run:
    """Records and their model, changed together; every view has the copy that was made when it was."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.record_keys = [record_key(rng.randrange(65536)) for _ in range(rng.choice((5, 40)))]
        store = CheckedStore(DictStore(), "DictStore", "operator")
        self.records = CustomRecords(store, b"k")
        self.others = CustomRecords(store, b"p")  # in the same store, behind these
        self.others.put_all([], [(each, b"other") for each in sorted(set(self.record_keys))], [], 0)
        self.model: dict[bytes, bytes] = {}
        self.views: list[tuple[RecordView, dict[bytes, bytes]]] = []

    def record(self) -> bytes:
        return self.rng.randbytes(self.rng.randint(1, 3))

    def change(self) -> None:
        rng, model = self.rng, self.model
        known = rng.sample(sorted(model), rng.randint(0, len(model)))
        records = [(each, self.record()) for each in known[::2]]
        gone = known[1::2][: rng.choice((0, 3, 100))]
        untouched = set(self.record_keys).difference(known)
        tried = rng.sample(sorted(untouched), min(len(untouched), rng.randint(0, 5)))
        new = [(each, model.get(each) if rng.random() < 0.2 else self.record()) for each in tried]
        new = [(each, self.record() if record is None else record) for each, record in new]
        expected = [each for each, record in new if model.get(each) not in (None, record)]
        assert self.records.put_all(records, new, gone, 0) == expected
        model.update(records)
        for each, record in new:
            model.setdefault(each, record)
        for each in gone:
            del model[each]

    def look(self) -> None:
        some = self.rng.sample(self.record_keys, 3)
        assert self.records.get_all(some) == [self.model.get(each) for each in some]
        assert len(self.records) == len(self.model)

    def open_view(self) -> None:
        self.views.append((self.records.view(), dict(self.model)))

    def look_back(self) -> None:
        if self.views:
            view, copy = self.rng.choice(self.views)
            some = self.rng.sample(self.record_keys, 3)
            assert view.get_all(some) == [copy.get(each) for each in some]
            after, count = self.rng.choice((b"", *self.record_keys)), self.rng.randint(1, 10)
            expected = sorted((each, record) for each, record in copy.items() if each > after)
            assert view.scan(after, count) == expected[:count]

    def close_view(self) -> None:
        if self.views:
            view, _ = self.views.pop(self.rng.randrange(len(self.views)))
            view.close()
            view.close()  # nothing is left to do


@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_views_show_what_there_was_when_they_were_made(seed: int) -> None:
    rng = random.Random(seed)
    page, custom_records._LEAST_PAGE = custom_records._LEAST_PAGE, rng.choice((1, 3, 256))
    try:
        run = Run(rng)
        ways = (run.change, run.change, run.look, run.open_view, run.look_back, run.look_back, run.close_view)
        for _ in range(rng.randint(1, 60)):
            rng.choice(ways)()
    finally:
        custom_records._LEAST_PAGE = page
    for _ in range(5):
        run.look_back()
