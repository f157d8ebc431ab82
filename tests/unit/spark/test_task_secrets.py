"""Keys of object stores on their way to tasks."""

from __future__ import annotations

import pickle
from pathlib import Path

from firesteel.spark.task_secrets import NO_SECRETS, TaskSecrets


def test_keys_arrive_and_are_in_no_text() -> None:
    secrets = TaskSecrets({"s3.secret-key": "very-secret"})
    arrived = pickle.loads(pickle.dumps(secrets))
    assert arrived.options() == {"s3.secret-key": "very-secret"}
    assert "very-secret" not in repr(secrets)


def test_a_file_is_not_made_for_nothing() -> None:
    with NO_SECRETS.in_file() as same:
        assert same is NO_SECRETS
        assert same.options() == {}


def test_a_file_has_the_keys_and_what_travels_has_not(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text('{"s3.secret-key": "very-secret"}')
    secrets = TaskSecrets(file=str(path))
    assert b"very-secret" not in pickle.dumps(secrets)
    assert secrets.options() == {"s3.secret-key": "very-secret"}
