"""One contract, every storage: the memory of this process, local files, and local files through pyarrow."""

import errno
import os
import subprocess
import sys

import pyarrow.fs
import pytest

from firesteel.checkpoint import local_storage
from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.storage import (
    ArrowStorage,
    MemoryStorage,
    absolute,
    check_writable,
    join_uri,
    open_storage,
)
from firesteel.common.errors import FileMissingError, StorageError


class ObjectStore(pyarrow.fs.SubTreeFileSystem):
    """Local files that pretend to be an object store, where nothing is renamed."""

    @property
    def type_name(self):
        return "s3"

    def move(self, src, dest):
        raise AssertionError("an object store does not rename")


@pytest.fixture(params=["memory", "local", "arrow", "objects"])
def storage(request, tmp_path):
    root = str(tmp_path / "root")
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "local":
        return LocalStorage(root)
    if request.param == "arrow":
        return ArrowStorage(pyarrow.fs.LocalFileSystem(), root, root)
    return ArrowStorage(
        ObjectStore(str(tmp_path), pyarrow.fs.LocalFileSystem()), "bucket/path", "s3://bucket/path"
    )


def write(storage, path, *parts):
    output = storage.create(path)
    for part in parts:
        output.write(part)
    output.close()


def test_written_file_can_be_read(storage):
    write(storage, "a/b/file", b"hello ", b"world")
    assert storage.read("a/b/file") == b"hello world"
    assert storage.read("a/b/file", 6) == b"world"
    assert storage.read("a/b/file", 6, 2) == b"wo"
    assert storage.size("a/b/file") == 11


def test_reading_beyond_the_end_gives_what_is_there(storage):
    write(storage, "file", b"abc")
    assert storage.read("file", 2, 10) == b"c"
    assert storage.read("file", 3, 10) == b""
    assert storage.read("file", 9) == b""


def test_empty_file(storage):
    write(storage, "file")
    assert storage.exists("file")
    assert storage.read("file") == b""


def test_large_file_in_many_parts(storage):
    parts = [bytes([i % 256]) * 70_001 for i in range(40)]
    write(storage, "file", *parts)
    assert storage.read("file") == b"".join(parts)
    assert storage.read("file", 70_000, 2) == b"\0\1"


def test_file_that_is_not_there(storage):
    assert not storage.exists("missing")
    assert storage.size("missing") is None
    with pytest.raises(FileMissingError, match="missing does not exist"):
        storage.read("missing")


def test_create_refuses_an_existing_file(storage):
    write(storage, "file", b"first")
    with pytest.raises(StorageError, match="file exists already"):
        storage.create("file")
    assert storage.read("file") == b"first"


def test_aborted_file_is_gone(storage):
    output = storage.create("directory/file")
    output.write(b"x" * 100_000)
    output.abort()
    output.abort()
    assert not storage.exists("directory/file")
    write(storage, "directory/file", b"again")


def test_abort_after_close_does_nothing(storage):
    output = storage.create("file")
    output.write(b"x")
    output.close()
    output.close()
    output.abort()
    assert storage.read("file") == b"x"


def test_publish(storage):
    storage.publish("a/_metadata", b"content")
    assert storage.read("a/_metadata") == b"content"
    assert storage.list("a") == ["_metadata"], "no temporary file stays"


def test_publish_refuses_to_replace(storage):
    storage.publish("_metadata", b"first")
    with pytest.raises(StorageError, match="_metadata exists already"):
        storage.publish("_metadata", b"second")
    assert storage.read("_metadata") == b"first"
    assert storage.list() == ["_metadata"]


def test_list_names_files_and_directories_of_one_level(storage):
    for path in ["b", "a/x", "a/y/z", "c/d"]:
        storage.publish(path, b"")
    assert storage.list() == ["a", "b", "c"]
    assert storage.list("a") == ["x", "y"]
    assert storage.list("missing") == []
    assert not storage.exists("a"), "a directory is not a file"
    assert storage.size("a") is None


def test_delete(storage):
    storage.publish("a/b", b"")
    storage.delete("a/b")
    storage.delete("a/b")
    assert not storage.exists("a/b")
    storage.publish("a/b", b"again")


def test_delete_directory(storage):
    for path in ["a/b", "a/c/d", "ab"]:
        storage.publish(path, b"")
    storage.delete_directory("a")
    storage.delete_directory("a")
    assert storage.list() == ["ab"]
    storage.delete_directory()
    assert storage.list() == []


def test_make_directory_twice(storage):
    storage.make_directory("a/b")
    storage.make_directory("a/b")
    assert storage.list("a/b") == []


def test_at_is_the_storage_of_a_subdirectory(storage):
    below = storage.at("a").at("b")
    below.publish("c", b"x")
    assert storage.read("a/b/c") == b"x"
    assert below.list() == ["c"]
    if storage.uri:
        assert below.uri == f"{storage.uri}/a/b"


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
def test_local_directories_by_path_and_uri(tmp_path, form):
    storage = open_storage(form.format(tmp_path / "a b"))
    storage.publish("x", b"1")
    assert (tmp_path / "a b" / "x").read_bytes() == b"1"
    assert open_storage(storage.uri).read("x") == b"1"


def test_escapes_in_a_file_uri(tmp_path):
    open_storage(f"file://{tmp_path}/a%20b").publish("x", b"1")
    assert (tmp_path / "a b" / "x").exists()


def test_relative_path_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage("a").uri == str(tmp_path / "a")
    assert absolute("a/../b") == str(tmp_path / "b")
    assert absolute("s3://bucket/a") == "s3://bucket/a"


def test_memory_storages_of_one_name_share_their_files():
    open_storage("memory://test_storage/a").publish("x", b"1")
    assert open_storage("memory://test_storage").read("a/x") == b"1"
    assert not open_storage("memory://other").exists("a/x")
    MemoryStorage.forget("memory://test_storage")
    assert not open_storage("memory://test_storage").exists("a/x")


def test_local_storage_does_not_load_pyarrow():
    code = (
        "import sys; from firesteel.checkpoint.storage import open_storage; open_storage('/tmp/x');"
        "assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP], ids=["EPERM", "EOPNOTSUPP"])
def test_file_systems_without_hard_links(tmp_path, monkeypatch, code):
    def link(source, target):
        raise OSError(code, "not supported")

    monkeypatch.setattr(local_storage.os, "link", link)
    storage = LocalStorage(str(tmp_path))
    storage.publish("x", b"1")
    with pytest.raises(StorageError, match="exists already"):
        storage.publish("x", b"2")
    assert storage.read("x") == b"1"
    assert storage.list() == ["x"]


@pytest.mark.parametrize(("times", "is_gone"), [(1, True), (3, True), (10_000, False)])
def test_directory_into_which_somebody_writes_is_deleted_without_an_error(
    tmp_path, monkeypatch, times, is_gone
):
    storage = LocalStorage(str(tmp_path))
    write(storage, "chk-1/a", b"old")
    remove, written = os.rmdir, []

    def remove_too_late(path, **more):
        if len(written) < times:
            written.append(path)
            (tmp_path / "chk-1" / f"zombie-{len(written)}").write_bytes(b"new")
        remove(path, **more)

    monkeypatch.setattr(os, "rmdir", remove_too_late)
    storage.delete_directory("chk-1")
    assert (tmp_path / "chk-1").exists() != is_gone


def test_directory_from_which_others_delete_is_deleted_to_its_end(tmp_path, monkeypatch):
    storage = LocalStorage(str(tmp_path))
    for name in ("a", "b", "c"):
        write(storage, f"chk-1/{name}", b"")
    unlink, lost = os.unlink, []

    def lose_first(path, **more):
        if not lost:
            lost.append(path)
            unlink(path, **more)
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", lose_first)
    storage.delete_directory("chk-1")
    assert not (tmp_path / "chk-1").exists()


def test_directory_that_must_not_be_deleted_is_an_error(tmp_path, monkeypatch):
    def refuse(path, **more):
        raise PermissionError(errno.EACCES, "no", path)

    write(LocalStorage(str(tmp_path)), "chk-1/a", b"")
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StorageError):
        LocalStorage(str(tmp_path)).delete_directory("chk-1")


def test_check_writable_makes_the_directory_and_leaves_nothing_in_it(tmp_path):
    check_writable(str(tmp_path / "a" / "b"))
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_check_writable_refuses_a_file_in_the_place_of_the_directory(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            StorageError, match=r"the checkpoint directory .*file.* cannot be written: .*file"
        ):
            check_writable(str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_check_writable_refuses_a_directory_without_permission(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(
        StorageError, match=r"cannot be written: .*[Pp]ermission denied; give .* with some.option"
    ):
        check_writable(str(tmp_path / "locked"), option="some.option")


def test_check_writable_refuses_what_the_system_does_not_allow():
    with pytest.raises(
        StorageError, match=r"the savepoint directory /proc/x cannot be written: .*some.option"
    ):
        check_writable("/proc/x", "savepoint directory", "some.option")


def test_unknown_scheme_is_refused():
    with pytest.raises(StorageError, match=r"unknown scheme 'ftp'; use a local path, or a URI with file, s3"):
        check_writable("ftp://host/a")


def test_file_uri_of_another_machine_is_refused():
    with pytest.raises(StorageError, match="'host'"):
        open_storage("file://host/a")


def test_secrets_in_a_uri_are_not_shown():
    storage = ArrowStorage(pyarrow.fs.LocalFileSystem(), "/nowhere", "s3://key:secret@bucket/path")
    with pytest.raises(StorageError, match="s3://bucket/path/x does not exist") as caught:
        storage.read("x")
    assert "secret" not in str(caught.value)


def test_join_uri():
    assert join_uri("/") + join_uri("/", "a") == "/a"
    assert join_uri("file:///a/", "b") == "file:///a/b"
    assert join_uri("memory://x", "b") == "memory://x/b"


# Looks ------------------------------------------------------------------------------------------------------

_TROUBLE = ["EACCES", "EIO", "ESTALE"]


@pytest.mark.parametrize("look", ["exists", "size", "list", "directory_id"])
@pytest.mark.parametrize("code", _TROUBLE)
def test_look_that_gets_no_answer_is_an_error_and_not_a_no(tmp_path, monkeypatch, look, code):
    storage = LocalStorage(str(tmp_path))
    storage.publish("x", b"1")

    def fail(path, **more):
        raise OSError(getattr(errno, code), "the system does not answer", path)

    for call in ("stat", "lstat", "listdir", "scandir"):
        monkeypatch.setattr(local_storage.os, call, fail)
    with pytest.raises(StorageError, match="the system does not answer"):
        getattr(storage, look)(*([] if look == "directory_id" else ["" if look == "list" else "x"]))


@pytest.mark.parametrize("look", ["exists", "size", "list", "directory_id"])
def test_directory_that_leads_in_circles_is_an_error_and_not_a_no(tmp_path, look):
    """What root can see of a directory out of reach, to whom no permission is refused."""
    (tmp_path / "volume").symlink_to(tmp_path / "volume")
    storage = LocalStorage(str(tmp_path / "volume" / "checkpoints"))
    with pytest.raises(StorageError):
        getattr(storage, look)(*([] if look == "directory_id" else ["x"]))


def test_file_in_the_place_of_the_directory_is_an_error_and_not_a_no(tmp_path):
    (tmp_path / "volume").write_text("")
    storage = LocalStorage(str(tmp_path / "volume"))
    for look in (storage.exists, storage.size, storage.list):
        with pytest.raises(StorageError, match="a file is in the place"):
            look("x")


def test_nothing_lies_below_a_file(storage):
    storage.publish("file", b"")
    assert not storage.exists("file/x")
    assert storage.size("file/x") is None


def test_answer_of_a_store_that_does_not_know_is_an_error(tmp_path):
    class Unsure(pyarrow.fs.SubTreeFileSystem):
        def get_file_info(self, paths):
            return pyarrow.fs.FileInfo("x", pyarrow.fs.FileType.Unknown)

    storage = ArrowStorage(Unsure("/", pyarrow.fs.LocalFileSystem()), str(tmp_path), str(tmp_path))
    with pytest.raises(StorageError, match="does not say"):
        storage.exists("x")


def test_directory_id_tells_a_directory_from_another_of_its_name(tmp_path):
    storage = LocalStorage(str(tmp_path / "volume"))
    assert storage.directory_id() is None
    storage.make_directory()
    before = storage.directory_id()
    assert before == LocalStorage(str(tmp_path / "volume")).directory_id()
    (tmp_path / "volume").rename(tmp_path / "away")
    assert storage.directory_id() is None
    storage.make_directory()
    assert storage.directory_id() != before


# Forcing to disk --------------------------------------------------------------------------------------------


def failing_sync(monkeypatch, code):
    """Directories cannot be forced to disk; files can."""
    sync = os.fsync

    def fail(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(code, "cannot be forced")
        sync(descriptor)

    monkeypatch.setattr(local_storage.os, "fsync", fail)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP], ids=["EINVAL", "EOPNOTSUPP"])
def test_file_system_whose_directories_cannot_be_forced_to_disk(tmp_path, monkeypatch, code):
    failing_sync(monkeypatch, code)
    storage = LocalStorage(str(tmp_path / "new"))
    storage.publish("a/x", b"1")
    write(storage, "a/y", b"2")
    assert storage.list("a") == ["x", "y"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_directory_that_fails_to_be_forced_to_disk_is_an_error(tmp_path, monkeypatch, code):
    failing_sync(monkeypatch, code)
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(StorageError, match="cannot be forced"):
        storage.publish("x", b"1")
    with pytest.raises(StorageError, match="cannot be forced"):
        write(storage, "y", b"2")
    with pytest.raises(StorageError, match="cannot be forced"):
        storage.sync()


def test_name_that_cannot_be_linked_for_another_reason_is_not_taken_by_force(tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(local_storage.os, "link", link)
    with pytest.raises(StorageError, match="broken"):
        LocalStorage(str(tmp_path)).publish("x", b"1")
    assert os.listdir(tmp_path) == []
