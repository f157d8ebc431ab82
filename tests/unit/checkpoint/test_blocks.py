import dataclasses
import struct
import zlib

import pytest

from firesteel.checkpoint import blocks
from firesteel.checkpoint.blocks import SegmentWriter, StateFileWriter, file_header, read_segment
from firesteel.checkpoint.storage import MemoryStorage
from firesteel.common.errors import CorruptStateError, FileMissingError, StateError

PAYLOADS = [b"first", b"", b"x" * 1000, bytes(range(256))]


def written(*segments, compress=False):
    """A storage with one file, and its segments."""
    storage = MemoryStorage()
    output = storage.create("f")
    output.write(file_header())
    file = StateFileWriter("f", compress)
    described = []
    for payloads in segments:
        writer = file.segment()
        for payload in payloads:
            output.write(writer.add(payload))
        described.append(writer.finish())
    output.close()
    assert storage.size("f") == file.length
    return storage, described


@pytest.mark.parametrize("compress", [False, True])
def test_segments_of_a_file_come_back(compress):
    storage, segments = written(PAYLOADS, [], [b"other"], compress=compress)
    assert [list(read_segment(storage, segment)) for segment in segments] == [PAYLOADS, [], [b"other"]]
    assert [segment.blocks for segment in segments] == [4, 0, 1]


def test_segments_come_back_from_the_bytes_of_the_file():
    storage, [segment] = written(PAYLOADS)
    assert list(read_segment(storage.read("f"), segment)) == PAYLOADS


def test_inline_segment_needs_no_storage():
    writer = SegmentWriter()
    for payload in PAYLOADS:
        writer.add(payload)
    segment = writer.finish()
    assert (segment.file, len(segment.inline)) == ("", segment.length)
    assert list(read_segment(None, segment)) == PAYLOADS


def test_compression_makes_what_compresses_smaller_and_leaves_the_rest():
    storage, [segment] = written([b"a" * 10_000, b"b"], compress=True)
    assert segment.length < 200
    assert list(read_segment(storage, segment)) == [b"a" * 10_000, b"b"]


def test_large_segment_is_read_buffer_by_buffer(monkeypatch):
    monkeypatch.setattr(blocks, "_BUFFER_SIZE", 100)
    payloads = [bytes([i]) * (i * 7 % 250) for i in range(40)]
    storage, [_, segment] = written([b"before"], payloads)
    assert list(read_segment(storage, segment)) == payloads


def test_large_segment_is_checked_before_its_first_block(monkeypatch):
    monkeypatch.setattr(blocks, "_BUFFER_SIZE", 100)
    storage, [segment] = written([b"x" * 30] * 20)
    storage.files["f"] = storage.files["f"][:-1] + b"?"
    with pytest.raises(CorruptStateError):
        read_segment(storage, segment)


def test_format_of_a_file_is_fixed():
    storage, [segment] = written([b"abc"])
    head = struct.pack("<QB", 3, 0)
    crc = zlib.crc32(head + b"abc")
    block = head + struct.pack("<I", crc) + b"abc"
    magic = b"FSTATE\x01\x00"
    assert storage.files["f"] == magic + struct.pack("<I", zlib.crc32(magic)) + block
    assert (segment.offset, segment.length, segment.checksum) == (12, len(block), zlib.crc32(block))


def test_missing_file():
    storage, [segment] = written(PAYLOADS)
    storage.delete("f")
    with pytest.raises(FileMissingError, match="f does not exist"):
        read_segment(storage, segment)


def test_damaged_block_is_named_with_its_position():
    storage, [segment] = written([b"aaaa", b"bbbb"])
    content = bytearray(storage.files["f"])
    content[-1] ^= 1
    storage.files["f"] = bytes(content)
    with pytest.raises(
        CorruptStateError, match="damaged state: f, at byte 29: the checksum of the block"
    ) as caught:
        read_segment(storage, segment)
    assert (caught.value.file, caught.value.position) == ("f", 29)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"blocks": 3}, "2 blocks instead of 3"),
        ({"checksum": 1}, "checksum of the segment"),
        ({"length": 33}, "not the beginning of a block"),
        ({"length": 500}, "the file ends here; 500 bytes were expected"),
        ({"offset": 13}, "the file ends here"),
    ],
)
def test_segment_that_does_not_fit_its_file(change, reason):
    storage, [segment] = written([b"aaaa", b"bbbb"])
    with pytest.raises(CorruptStateError, match=reason):
        read_segment(storage, dataclasses.replace(segment, **change))


def test_exchanged_blocks_are_noticed():
    storage, [segment] = written([b"aaaa", b"bbbb"])
    content = storage.files["f"]
    storage.files["f"] = content[:12] + content[29:] + content[12:29]
    with pytest.raises(CorruptStateError, match="checksum of the segment"):
        read_segment(storage, segment)


def test_other_file_is_refused():
    storage, [segment] = written(PAYLOADS)
    storage.files["f"] = b"PK\x03\x04" + storage.files["f"][4:]
    with pytest.raises(CorruptStateError, match="not the header of a state file"):
        read_segment(storage, segment)


def test_newer_format_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(blocks, "VERSION", 2)
    storage, [segment] = written(PAYLOADS)
    monkeypatch.undo()
    with pytest.raises(StateError, match="written by a newer version of Firesteel: its format is 2"):
        read_segment(storage, segment)


def test_first_segment_begins_behind_the_header():
    assert len(file_header()) == blocks.HEADER_LENGTH == StateFileWriter("f").length
