"""Files that are written whole or not at all, and errors that name the path and the way out."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FilePath = str | os.PathLike[str]
_NO_SPACE = "free some space or choose another place"
_NOT_ALLOWED = "choose a place you may write to, or change the permissions"
_ADVICE = {
    ("write", errno.ENOENT): "create the folder first",
    ("write", errno.ENOTDIR): "a part of the path is a file, choose another folder",
    ("write", errno.EISDIR): "give the name of a file in it",
    ("write", errno.EACCES): _NOT_ALLOWED,
    ("write", errno.EPERM): _NOT_ALLOWED,
    ("write", errno.EROFS): _NOT_ALLOWED,
    ("write", errno.ENOSPC): _NO_SPACE,
    ("write", errno.EDQUOT): _NO_SPACE,
    ("write", errno.EFBIG): _NO_SPACE,
    ("read", errno.EISDIR): "give the name of a model file in it",
    ("read", errno.EACCES): "change its permissions",
}


def write_whole(path: FilePath, data: bytes) -> None:
    """Write a file so that, whatever happens, `path` holds all of `data` or what it held before.

    The data go to a new file in the same folder, reach the disk, and then take the name over in
    one step. A failure removes the new file and raises `OSError`, which names the path and the
    way out; only a killed process or a power cut can leave a stray ".softbins-*.tmp", which may
    be deleted. A replaced file's permissions are kept, a new one's follow the umask. A link is
    followed. "~" is not expanded: `open` and `torch.save` do not do it either.
    """
    place = checked_path(path)
    try:
        # Replacing the link itself would leave the file that others see through it unchanged.
        _replace(os.path.realpath(place) if os.path.islink(place) else place, data)
    except OSError as error:
        raise explained("write", place, error) from error


@contextmanager
def whole_file(path: FilePath) -> Iterator[str]:
    """The name of a new file to write, which takes over the name `path` if nothing fails.

    What is too large for memory is written so, with the promises of `write_whole`.
    """
    place = checked_path(path)
    target = os.path.realpath(place) if os.path.islink(place) else place
    folder = os.path.dirname(target) or os.curdir
    temporary = os.path.join(folder, f".softbins-{os.urandom(8).hex()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise explained("write", place, error) from error
        raise
    _sync_folder(folder)


def checked_path(path: FilePath) -> str:
    """The name of a file as text, or `ValueError`."""
    place = os.fspath(path)
    if not isinstance(place, str) or not place or "\0" in place:
        raise ValueError(f"path: need the name of a file as text without NUL, got {place!r}")
    return place


def explained(aim: str, place: str, error: OSError) -> OSError:
    """The same error (`OSError` picks its class by number) with the path and the way out."""
    advice = _ADVICE.get((aim, error.errno or 0), "check the path or choose another one")
    if place.startswith("~"):
        advice += ' ("~" is not expanded, use os.path.expanduser)'
    kept = "nothing was changed; " if aim == "write" else ""
    return OSError(error.errno, f"cannot {aim} ({error.strerror}); {kept}{advice}", place)


def _replace(target: str, data: bytes) -> None:
    permissions = _replaced_permissions(target)
    folder = os.path.dirname(target) or os.curdir
    # Not named after the target, whose name may already be as long as a name can be.
    temporary = os.path.join(folder, f".softbins-{os.urandom(8).hex()}.tmp")
    try:
        _fill(temporary, data, permissions)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _replaced_permissions(target: str) -> int | None:
    """The permissions of the file that will be replaced, None if there is none yet."""
    try:
        mode = mode_of_file(target)
        # Renaming needs no permission on the file itself; its write protection still counts.
        os.close(os.open(target, os.O_WRONLY))
    except FileNotFoundError:
        return None
    return mode & 0o777


def mode_of_file(place: str) -> int:
    """The mode of a regular file; `OSError` for everything that is not one."""
    mode = os.stat(place).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    # A pipe would block when opened; a device would be replaced by a file, or never end.
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file")
    return mode


def _fill(place: str, data: bytes, permissions: int | None) -> None:
    # open, unlike tempfile, leaves the permissions to the umask: a model file is no secret of
    # the process that wrote it, and colleagues or a server must be able to read it.
    with open(place, "xb") as file:
        if permissions is not None:
            os.chmod(place, permissions)
        file.write(data)
        file.flush()
        # Without this a power cut could leave the new name on a file whose data never arrived.
        os.fsync(file.fileno())


def _sync_folder(folder: str) -> None:
    """Let the new name itself survive a power cut, where the system can do that."""
    # The file is in place and whole either way, so that a failure here is not one of writing.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
