import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.errors import ProgramError
from firesteel.connectors.files import line_blocks, splits
from firesteel.connectors.text_file import TextFileSource


def lines_of(drive, source, parallelism=1, limit=1024):
    return [
        line for subtask in range(parallelism) for line in drive(source, subtask, parallelism).values(limit)
    ]


@pytest.fixture
def small_splits(monkeypatch):
    monkeypatch.setattr(splits, "MIN_SPLIT_BYTES", 5)
    monkeypatch.setattr(splits, "MAX_SPLIT_BYTES", 7)
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 3)


def test_lines_come_without_their_ends(drive, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\n\nfour, no end")
    assert lines_of(drive, TextFileSource(path), limit=2) == ["one", "two", "", "four, no end"]


def test_only_line_feeds_end_lines(drive, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("a\rb\n\u2028c\n".encode())
    assert lines_of(drive, TextFileSource(path)) == ["a\rb", "\u2028c"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("aé€😀 \r"), max_size=12), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_every_line_is_read_exactly_once_wherever_ranges_end(
    tmp_path_factory, drive, lines, newline, ended, parallelism, split, block
):
    lines = [line.rstrip("\r") for line in lines]
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes((newline.join(lines) + (newline if ended and lines else "")).encode())
    expected = lines if ended or not lines or lines[-1] else lines[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "MIN_SPLIT_BYTES", split)
        patch.setattr(splits, "MAX_SPLIT_BYTES", split)
        patch.setattr(line_blocks, "BLOCK_BYTES", block)
        assert lines_of(drive, TextFileSource(path), parallelism, limit=3) == expected


@pytest.mark.usefixtures("small_splits")
def test_subtasks_share_a_file(drive, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {n}\n" for n in range(20)))
    shares = [drive(TextFileSource(path), subtask, 4).values() for subtask in range(4)]
    assert [line for share in shares for line in share] == [f"line {n}" for n in range(20)]
    assert all(4 <= len(share) <= 6 for share in shares)


def test_a_small_file_is_not_divided(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x\n" * 100)
    splits = [TextFileSource(path).splits_of(subtask, 4) for subtask in range(4)]
    assert sum(map(len, splits)) == 1


def test_a_directory_is_read_with_all_below_it_but_hidden_files(drive, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "_temporary").mkdir()
    names = ("a.txt", "b/c.txt", ".hidden", "_SUCCESS", "_temporary/d.txt", "z.txt")
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    assert lines_of(drive, TextFileSource(tmp_path)) == ["a.txt", "b/c.txt", "z.txt"]


def test_a_pattern_selects_files(drive, tmp_path):
    for name in ("a.txt", "b.csv", "c.txt"):
        (tmp_path / name).write_text(name)
    assert lines_of(drive, TextFileSource(f"{tmp_path}/*.txt"), parallelism=2) == ["a.txt", "c.txt"]


def test_a_file_address_is_a_path(drive, tmp_path):
    (tmp_path / "with space.txt").write_text("here")
    assert lines_of(drive, TextFileSource((tmp_path / "with space.txt").as_uri())) == ["here"]


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize("charset", ["UTF-16", "utf-32-le", "ISO-8859-1", "utf-8-sig"])
def test_other_charsets_are_decoded(drive, tmp_path, charset):
    path = tmp_path / "a.txt"
    path.write_bytes("größe\r\nĊ"[: 7 if charset == "ISO-8859-1" else None].encode(charset))
    expected = ["größe"] if charset == "ISO-8859-1" else ["größe", "Ċ"]
    assert lines_of(drive, TextFileSource(path, charset), parallelism=3) == expected


@pytest.mark.usefixtures("small_splits")
def test_compressed_files_are_decompressed(drive, tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\r\ntwo\nthree"))
    assert lines_of(drive, TextFileSource(path), parallelism=2) == ["one", "two", "three"]


def test_bytes_that_are_no_text_are_marked(drive, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xffb\nc")
    assert lines_of(drive, TextFileSource(path)) == ["a\ufffdb", "c"]


def test_an_empty_file_has_no_lines(drive, tmp_path):
    (tmp_path / "a.txt").touch()
    assert lines_of(drive, TextFileSource(tmp_path), parallelism=2) == []


def test_a_stopped_source_leaves_out_the_rest(drive, tmp_path):
    (tmp_path / "a.txt").write_text("x\n" * 10)
    driven = drive(TextFileSource(tmp_path))
    driven.poll(3)
    driven.reader.stop()
    assert driven.values() == []


def test_a_missing_path_is_refused_when_the_source_is_built(tmp_path):
    with pytest.raises(ProgramError, match=r"no file or directory to read from: '.*nowhere.txt'"):
        TextFileSource(tmp_path / "nowhere.txt")
    with pytest.raises(ProgramError, match=r"no file matches the pattern to read from: '.*\*.log'"):
        TextFileSource(f"{tmp_path}/*.log")


def test_remote_addresses_and_unknown_charsets_are_refused(tmp_path):
    with pytest.raises(ProgramError, match=r"'s3://bucket/a.txt'"):
        TextFileSource("s3://bucket/a.txt")
    with pytest.raises(ProgramError, match="unknown charset 'klingon'"):
        TextFileSource(tmp_path, "klingon")
