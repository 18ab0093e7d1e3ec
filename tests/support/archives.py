"""Archives as data: what a tar or zip from the network may hold, good and bad."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Mapping

import numpy as np


def tar(members: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w") -> bytes:
    """A tar of files by name; a TarInfo is added as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as content:  # type: ignore[call-overload]
        for name, member in members.items():
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(name)
            body = member if isinstance(member, bytes) else b""
            info.size = len(body)
            content.addfile(info, io.BytesIO(body))
    return out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link or a device."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(members: Mapping[str, bytes], link: str = "") -> bytes:
    """A zip of files by name; the file named `link` is marked as a symbolic link."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as content:
        for name, body in members.items():
            info = zipfile.ZipInfo(name)
            if name == link:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            content.writestr(info, body, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    """An array as the bytes of an .npy file."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()
