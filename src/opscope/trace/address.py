"""Addresses of what lies elsewhere: how they are told from paths, and shown without a password."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from opscope.errors import UsageError

# As a path in the file system has one slash where an address has two, either will do. What is
# within something else has several: zip://trace::s3://bucket/traces.zip
_ADDRESS = re.compile(
    r"((?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]+):/{1,3}(?!/)(.+)", re.DOTALL
)
_WITHIN = re.compile(r"::([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
_OF_THE_FILE_SYSTEM = ("file", "local")
_LEAST_SECRET = 4
"""Characters; what is shorter is no password, and taking it out would garble what is said."""


def address_of(path: str | os.PathLike[str]) -> str | None:
    """What something elsewhere is called; None for a path in the file system."""
    text = os.fsdecode(path)
    match = _ADDRESS.fullmatch(text)
    if match is None or os.path.lexists(text):
        return None
    scheme, rest = match.groups()
    if scheme.lower() in _OF_THE_FILE_SYSTEM:
        return None
    return f"{scheme}://{_WITHIN.sub(_with_slashes, rest)}"


def path_of(path: str | os.PathLike[str]) -> Path:
    """Of what is in the file system, also where it is given as ``file://...``."""
    text = os.fsdecode(path)
    match = _ADDRESS.fullmatch(text)
    if match is None or os.path.lexists(text) or match[1].lower() not in _OF_THE_FILE_SYSTEM:
        return Path(text)
    plain, unquoted = Path("/" + match[2]), Path("/" + unquote(match[2]))
    return unquoted if unquoted.exists() and not plain.exists() else plain


def shown_address(address: str) -> str:
    """Without who reads there and their password, and what else is said of the store."""
    return "::".join(_shown(one) for one in address.split("::"))


def without_secrets(text: str, address: str) -> str:
    """What a store said of an address, without what :func:`shown_address` leaves out."""
    for secret in sorted(_secrets(address), key=len, reverse=True):
        text = text.replace(secret, "...")
    return text


def has_secrets(address: str) -> bool:
    """Whether something of it is not to be shown."""
    return bool(_secrets(address))


def refuse_address(path: str | os.PathLike[str]) -> None:
    """See that something that is to be written to is in the file system.

    Raises:
        UsageError: it is elsewhere.
    """
    address = address_of(path)
    if address is not None:
        raise UsageError(
            f"{shown_address(address)} is not in the file system, and opscope writes there alone. "
            "Write to a place there, and copy it with the tools of the store."
        )


def _with_slashes(match: re.Match[str]) -> str:
    return f"::{match[1]}:{'///' if match[1].lower() in _OF_THE_FILE_SYSTEM else '//'}"


def _shown(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    return f"{scheme}://{rest[len(_reader(rest)) :].partition('?')[0]}"


def _reader(rest: str) -> str:
    """Who reads there, up to the @; passwords are often written with their slashes as they are."""
    host = rest.partition("/")[0]
    if "@" in host:
        return host[: host.rindex("@") + 1]
    port = host.rpartition(":")[2]
    if ":" in host and not port.isdecimal() and "@" in rest:
        return rest[: rest.rindex("@") + 1]
    return ""


def _secrets(address: str) -> set[str]:
    found = set()
    for one in address.split("::"):
        rest = one.partition("://")[2]
        reader = _reader(rest)
        found.add(reader.rstrip("@").partition(":")[2])
        query = rest[len(reader) :].partition("?")[2]
        found |= {query, *(value for _, value in parse_qsl(query))}
    found |= {unquote(one) for one in found}
    return {one for one in found if len(one) >= _LEAST_SECRET}
