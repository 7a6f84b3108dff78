"""A server that says exactly the bytes that it is told to, and then closes the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Generator, Sequence


@contextlib.contextmanager
def saying(*answers: bytes | Sequence[bytes]) -> Generator[tuple[str, list[bytes]], None, None]:
    """Answer the n-th connection with the n-th answer (and all later ones with the last).

    Gives the URL and the requests' heads, as they come.
    """
    requests: list[bytes] = []
    stop = threading.Event()

    def serve(listener: socket.socket) -> None:
        count = 0
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                head = b""
                while b"\r\n\r\n" not in head:
                    received = connection.recv(65536)
                    if not received:
                        break
                    head += received
                requests.append(head)
                answer = answers[min(count, len(answers) - 1)]
                count += 1
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.05)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/", requests
        finally:
            stop.set()
            thread.join(10)


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """Return an HTTP/1.1 response."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body: bytes, size: int = 1000, *, end: bool = True) -> bytes:
    """Return a body in the chunked transfer coding."""
    pieces = [body[k : k + size] for k in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n" * end
