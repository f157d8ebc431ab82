"""Names in a folder - new, changed, removed - that survive a power loss."""

from __future__ import annotations

import errno
import os

__all__ = ["sync_folder"]

#: How a file system says that folders need not, or cannot, be synced.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Return when the names in a folder are on disk, as far as the file system can promise that.

    A folder that this process may neither read nor write needs nothing: none of its names are ours.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
