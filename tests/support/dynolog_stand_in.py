"""A daemon as Dynolog's: hands out one configuration, once, to whoever asks for a process."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path

HEAD = struct.Struct("=Q32s")


class DynologStandIn:
    """Listens in a folder (``KINETO_IPC_SOCKET_DIR``) as ``dynolog``; written from its sources."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "dynolog"))
        self.registered: list[tuple[int, int, int]] = []
        self.asked: list[tuple[int, int, list[int]]] = []
        self.configuration = ""
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def __enter__(self) -> DynologStandIn:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _answer(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(1 << 16)
            if not data:
                return
            size, kind = HEAD.unpack_from(data)
            content = data[HEAD.size :]
            assert len(content) == size
            word = kind.rstrip(b"\0")
            if word == b"ctxt":
                self.registered.append(struct.unpack("=iiq", content))
                answer = struct.pack("=i", len(self.registered))
            else:
                wanted, count, job = struct.unpack_from("=iiq", content)
                self.asked.append(
                    (wanted, job, list(struct.unpack_from(f"={count}i", content, 16)))
                )
                answer, self.configuration = self.configuration.encode(), ""
            with contextlib.suppress(OSError):  # whoever asked has gone
                self._socket.sendto(HEAD.pack(len(answer), word) + answer, sender)
