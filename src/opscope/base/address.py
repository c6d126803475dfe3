"""URLs of remote stores: detected by their scheme, shown without credentials."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from opscope.errors import UsageError

# A path in the file system has one slash where a URL has two; both match. URLs of files in archives
# have several schemes: zip://trace::s3://bucket/traces.zip
_SCHEME = re.compile(r"(^|::)([A-Za-z][A-Za-z0-9+.-]+):/{1,3}(?=[^/])")
_CHAINED = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*")
_LOCAL_SCHEMES = ("file", "local")
# Passwords often contain unescaped slashes; the text after a colon may be a port.
_CREDENTIALS = re.compile(r"(?<=://)(?:[^/:]+:(?!\d+(?:/|$)).*@|[^/@]*@)", re.DOTALL)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """URL of a remote location; None for a path in the file system."""
    text = os.fsdecode(path)
    match = _scheme_of(text)
    return None if match is None or match[2].lower() in _LOCAL_SCHEMES else _normalised(text)


def path_of(path: str | os.PathLike[str]) -> Path:
    """Local path of a path or a ``file://`` URL."""
    text = os.fsdecode(path)
    match = _scheme_of(text)
    if match is None or match[2].lower() not in _LOCAL_SCHEMES:
        return Path(text)
    plain, unquoted = Path("/", text[match.end() :]), Path("/", unquote(text[match.end() :]))
    return unquoted if unquoted.exists() and not plain.exists() else plain


def shown_address(address: str) -> str:
    """The URL without credentials and query."""
    return "::".join(_CREDENTIALS.sub("", url).partition("?")[0] for url in address.split("::"))


def refuse_address(path: str | os.PathLike[str]) -> None:
    """Raise UsageError if an output path is a remote address."""
    address = address_of(path)
    if address is not None:
        raise UsageError(
            f"{shown_address(address)} is a remote address, but opscope writes only to the file "
            "system. Write to a local folder, and copy it with the tools of the store."
        )


def _scheme_of(text: str) -> re.Match[str] | None:
    """Match of an address's scheme, after the scheme of an archive around it; None for a path."""
    chained = _CHAINED.match(text)
    match = _SCHEME.match(text, 0 if chained is None else max(chained.end() - 2, 0))
    return None if match is None or os.path.lexists(text) else match


def _normalised(text: str) -> str:
    def with_slashes(match: re.Match[str]) -> str:
        is_local = match[2].lower() in _LOCAL_SCHEMES
        return f"{match[1]}{match[2]}:{'///' if is_local else '//'}"

    return _SCHEME.sub(with_slashes, text)
