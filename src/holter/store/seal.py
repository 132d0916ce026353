"""A mark by which users know what they wrote: of what is kept in a shared store nothing else is believed."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

_KEY_BYTES = 32
_MARK_BYTES = hashlib.sha256().digest_size


def sealed(data: bytes) -> bytes:
    """Return data with this user's mark before it; raises `OSError` where no secret can be kept."""
    return _mark(_key(make=True), data) + data


def opened(data: bytes) -> bytes | None:
    """Return what this user sealed; None when it was another, or it was changed since, or is damaged."""
    mark, rest = data[:_MARK_BYTES], data[_MARK_BYTES:]
    try:
        key = _key(make=False)
    except OSError:
        return None
    return rest if hmac.compare_digest(mark, _mark(key, rest)) else None


def _mark(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _key(*, make: bool) -> bytes:
    """Return the user's secret, which never leaves this machine; lost, it only costs reading anew."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(root, "holter", "seal.key")
    try:
        key = path.read_bytes()
        own = path.stat()
    except FileNotFoundError:
        if not make:
            raise
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(8)}.draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, path)  # whoever is first wins, and all use that one
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return _key(make=False)
    if len(key) != _KEY_BYTES or own.st_uid != os.geteuid() or own.st_mode & 0o077:
        raise PermissionError(f"{path} is no secret of this user")
    return key
