"""Proofs of what was finished: they stay small, whatever is finished and however often."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

from firesteel.connectors.files.file_system import LOCAL
from firesteel.connectors.files.part_file import PROOFS_FOLDER, FinishedParts, was_finished
from firesteel.connectors.number_ranges import Numbers

ID = "0123456789abcdef"


def test_numbers_are_a_set() -> None:
    random = Random(1)
    for _ in range(200):
        numbers, model = Numbers(), set[int]()
        for _ in range(random.randint(1, 30)):
            number = random.randint(0, 20)
            numbers.add(number)
            model.add(number)
        assert {number for number in range(-1, 22) if number in numbers} == model
        assert all(first[1] + 1 < second[0] for first, second in pairwise(numbers.ranges))


def test_what_was_noted_is_found_from_every_folder_below(tmp_path: Path) -> None:
    proofs = FinishedParts(LOCAL, str(tmp_path), "me")
    proofs.add([f"{tmp_path}/a/b/part-{ID}-0-3.txt", f"{tmp_path}/part-0-7"])
    proofs.add([f"{tmp_path}/a/part-{ID}-0-4.txt"])
    yes = [f"a/b/part-{ID}-0-3.txt", f"a/part-{ID}-0-4.txt", "part-0-7"]
    no = [f"a/part-{ID}-0-5.txt", f"a/part-{ID}-0-3.tx", f"a/part-{ID}-1-3.txt", "part-0-8", "a/part-0-7"]
    assert [name for name in [*yes, *no] if was_finished(LOCAL, f"{tmp_path}/{name}")] == yes
    assert not proofs.proved_by_others(f"{tmp_path}/{yes[0]}")


def test_ten_thousand_files_in_ten_buckets_need_no_more_than_a_line(tmp_path: Path) -> None:
    proofs = FinishedParts(LOCAL, str(tmp_path), "me")
    for start in range(0, 10_000, 500):
        proofs.add(f"{tmp_path}/{n % 10}/part-{ID}-0-{n}" for n in range(start, start + 500))
    (path,) = (tmp_path / PROOFS_FOLDER).iterdir()
    assert path.stat().st_size < 100


def test_suffixes_that_look_like_numbers_are_not_mixed_up(tmp_path: Path) -> None:
    FinishedParts(LOCAL, str(tmp_path), "me").add(
        [f"{tmp_path}/part-{ID}-0-07", f"{tmp_path}/part-{ID}-0-3-5"]
    )
    found = [
        name
        for name in ("07", "7", "007", "3-5", "3", "5")
        if was_finished(LOCAL, f"{tmp_path}/part-{ID}-0-{name}")
    ]
    assert found == ["07", "3-5"]
