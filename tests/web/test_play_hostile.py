"""The playground's server against raw sockets: requests half sent, frames that are no text, visitors who vanish."""

import base64
import contextlib
import json
import logging
import os
import socket
import struct
import threading
import time

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from everystep.web.playground import server

pytestmark = pytest.mark.quick

TEXT, GO_ON, CLOSE = 1, 0, 8


class Records(logging.Handler):
    """Everything that the server would print."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture(scope="module")
def port():
    """The server itself, in a thread, with short limits."""
    with pytest.MonkeyPatch.context() as patch, server.listening("127.0.0.1", None) as ear:
        patch.setattr(server, "REQUEST_SECONDS", 0.5)
        patch.setattr(server, "CONNECTIONS", 8)
        number = ear.getsockname()[1]
        config = server.configuration(server.application(server.Hosts("127.0.0.1", number), warm=False))
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([ear],))
        thread.start()
        while not running.started:
            time.sleep(0.02)
        yield number
        running.should_exit = True
        thread.join()


@pytest.fixture
def printed(port, capfd):
    """What the server has printed by the end of a test."""
    seen, logger = Records(), logging.getLogger("uvicorn.error")
    logger.addHandler(seen)
    yield lambda: [*(record.getMessage() for record in seen.records), *capfd.readouterr().err.splitlines()]
    logger.removeHandler(seen)


def connected(port):
    opened = socket.create_connection(("127.0.0.1", port), timeout=30)
    return contextlib.closing(opened)


def request(port, *lines, end="\r\n"):
    return ("\r\n".join(["GET / HTTP/1.1", f"Host: 127.0.0.1:{port}", *lines, ""]) + end).encode()


def is_closed(opened):
    """Wait until the server has closed a connection."""
    with contextlib.suppress(ConnectionError):
        while opened.recv(65_536):
            pass
    return True


def answers(port):
    with connected(port) as opened:
        opened.sendall(request(port, "Connection: close"))
        return opened.recv(100).startswith(b"HTTP/1.1 200 OK")


def visitor(port):
    """A visitor after the greeting of the server."""
    opened = connected(port)
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    head = request(port, *upgrade, f"Origin: http://127.0.0.1:{port}").replace(b"GET / ", b"GET /learn ")
    opened.thing.sendall(head)
    greeting = b""
    while b'"event":"hello"' not in greeting:
        greeting += opened.thing.recv(65_536)
    return opened


def frame(kind, data, last=True):
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
    return bytes([0x80 * last | kind, 0x80 | len(data)]) + mask + masked


def trickle(opened):
    """Send a byte now and then until the server no longer listens."""
    for _ in range(3000):
        opened.sendall(b"x")
        time.sleep(0.01)


def vanish(opened):
    """Close without a word, as a machine does that loses its network."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.close()


@pytest.mark.parametrize("sent", ["", "GET", "head", "body"])
def test_a_request_that_is_never_finished_is_closed(port, printed, sent):
    given = {"head": request(port, end=""), "body": request(port, "Content-Length: 9") + b"half"}
    with connected(port) as opened:
        opened.sendall(given.get(sent, sent.encode()))
        assert is_closed(opened)
    assert answers(port)
    assert printed() == []


def test_a_body_that_trickles_in_does_not_extend_the_limit(port, printed):
    with connected(port) as opened:
        opened.sendall(request(port, "Content-Length: 100000"))
        with pytest.raises(ConnectionError):
            trickle(opened)
    assert printed() == []


def test_many_half_requests_do_not_keep_others_out(port, printed, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 600.0)  # only the bound on connections is left
    with contextlib.ExitStack() as stack:
        half = [stack.enter_context(connected(port)) for _ in range(3 * server.CONNECTIONS)]
        for opened in half:
            with contextlib.suppress(ConnectionError):
                opened.sendall(b"GET / HTTP/1.1\r\nHo")
        assert answers(port)
        assert is_closed(half[0])  # the oldest of them had to go
    assert answers(port)
    assert printed() == []


def test_a_visitor_who_waits_is_not_disconnected(port):
    with visitor(port) as opened:
        time.sleep(3 * server.REQUEST_SECONDS)
        opened.sendall(frame(TEXT, b'{"command":"restart"}'))
        assert b"nothing was started yet" in opened.recv(65_536)


@pytest.mark.parametrize(
    "frames",
    [
        [(TEXT, b"\xff\xfe", True)],
        [(TEXT, b"\xc3", False), (GO_ON, b"\x28", True)],
        [(CLOSE, struct.pack(">H", 1000) + b"\xff", True)],
        [(CLOSE, b"\x03", True)],
        [(3, b"no such kind", True)],
    ],
    ids=["invalid UTF-8", "invalid UTF-8 in two frames", "invalid reason", "short code", "unknown kind"],
)
def test_a_frame_that_is_no_text_closes_its_connection_without_a_word_in_the_terminal(port, printed, frames):
    with visitor(port) as opened:
        for kind, data, last in frames:
            opened.sendall(frame(kind, data, last))
        assert is_closed(opened)
    assert answers(port)
    assert printed() == []


@pytest.mark.parametrize("message", [None, {"command": "check", "settings": {}, "number": 1}, {"command": "start"}])
def test_a_visitor_who_vanishes_leaves_no_word_in_the_terminal(port, printed, message):
    for _ in range(3):
        opened = visitor(port).thing
        if message is not None:
            opened.sendall(frame(TEXT, json.dumps(message).encode()))
        vanish(opened)
    assert answers(port)
    assert printed() == []
