"""Access control of opscope's servers.

A request must have the server's token and one of its names in the Host header, because the name of
another site may resolve to the server's address. Its origin must not be a page of another site.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection
from typing import Protocol

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d*)?", re.ASCII)


class Headers(Protocol):
    """Headers of a request; names are in lower case."""

    def get(self, name: str, otherwise: str, /) -> str:
        """Value of a header, or ``otherwise``."""


class Access:
    """Access check of a request, before any other part of the request is read."""

    def __init__(self, token: str, hosts: Collection[str] = (), page: str = "") -> None:
        """Set which requests are allowed.

        Args:
            token: token that requests must send.
            hosts: further names of the server; if any, other machines may send requests.
            page: origin of allowed pages; by default the server's own pages.
        """
        self._token, self._page = token.encode(), page
        self._hosts = _LOCAL | {name.lower() for name in hosts}
        self._is_local = not hosts

    def refusal(self, token: str, headers: Headers, client: str) -> tuple[int, str] | None:
        """Status and reason of a refusal; None if the request is allowed.

        Args:
            client: address of the client; empty for a Unix socket.
        """
        host = headers.get("host", "")
        if self._is_local and not _is_loopback(client):
            return 403, "Only processes of this machine may send requests."
        if _name_of(host) not in self._hosts:
            return 421, "The Host header names another host. Pass its name in hosts=."
        origin, site = headers.get("origin", ""), headers.get("sec-fetch-site", "none")
        from_page = origin == (self._page or f"http://{host}")
        if not (from_page if origin else site in ("none", "same-origin")):
            return 403, "Requests from pages of other sites are refused."
        if not hmac.compare_digest(token.encode(errors="replace"), self._token):
            return 401, "Send the server's token: Authorization: Bearer TOKEN."
        return None


def _is_loopback(client: str) -> bool:
    try:
        return ipaddress.ip_address(client).is_loopback
    except ValueError:
        return not client


def _name_of(host: str) -> str:
    """Host without port: ``localhost`` of ``localhost:8000``, ``::1`` of ``[::1]:8000``; empty if
    it has anything else, such as a user."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
