"""`everystep play`: a small server for the user's own machine.

It answers GET for a fixed list of files, held in memory, and one WebSocket. It refuses all other requests that another
site could make a browser send: other host names (against DNS rebinding), other origins, bodies, long messages. No path
from a browser is ever looked up on the disk. Requests that arrive too slowly and connections that are too many are
closed (`BoundedConnection`), and no message of a visitor, or its absence, prints a traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from everystep.errors import EverystepError, shown

try:
    import h11
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketDisconnect
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise EverystepError(
        f"`everystep play` needs the package {error.name}, which is not installed; pip install 'everystep[play]'."
    ) from None

from everystep import __version__
from everystep.web import assets
from everystep.web.playground import protocol

if TYPE_CHECKING:
    from everystep.web.playground.sessions import Session, SharedWorkers

PORT = 8765
COMPILING = "everystep-compile"  # the name of threads that may still be busy at the end
TRY_AGAIN_LATER, TOO_MUCH = 1013, 1008
REQUEST_SECONDS = 5.0  # to send a request whole
ANSWER_SECONDS = 120.0  # to receive an answer whole: the largest file has four megabytes
CONNECTIONS = 128  # at the same time: a browser opens up to seven, and there are at most twelve visitors
STATIC = (
    *("board.js", "harm.js", "curves.js", "play.js", "painting.js", "form.js", "sharing.js", "lanes.js"),
    *("page.css", "board.css", "play.css"),
)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Hosts(NamedTuple):
    """The host names that this server accepts, which depend on the address it is bound to."""

    host: str
    port: int

    def accepts(self, name: str) -> bool:
        """Whether a Host header names this server: a loopback name, the name it is bound to, or, if it is bound to all
        addresses, any address; always with the right port."""
        if self.port == 80 and not name.endswith(":80"):  # browsers omit it
            name += ":80"
        bare, _, port = name.rpartition(":")
        if not bare or port != str(self.port):
            return False
        bare = bare.strip("[]").lower()
        if bare in {"localhost", "127.0.0.1", "::1", self.host.lower()}:
            return True
        try:
            return self._any and bool(ipaddress.ip_address(bare))
        except ValueError:
            return self._any and bare == socket.gethostname().lower()

    @property
    def _any(self) -> bool:
        return self.host in ("0.0.0.0", "::")

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class RequestFilter:
    """Refuses requests that the playground's page never sends, before they are parsed; adds headers to all answers."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": TOO_MUCH, "reason": refusal[1]})
        else:
            await PlainTextResponse(refusal[1] + "\n", refusal[0], HEADERS)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.hosts.accepts(host):
            return 421, "This server does not have that name; open the address that `everystep play` printed."
        if (origin is None and scope["type"] == "websocket") or (origin is not None and origin != f"http://{host}"):
            return 403, "This server accepts requests of its own page only, not of other origins."
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            return 405, "This server answers GET only."
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "This server accepts no request with a body."
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return sending


class BoundedConnection(H11Protocol):
    """A connection with a time limit on every request and its answer, and a bound on the number of connections.

    Where there are too many, the one that has been sending its request for longest is closed: so clients that send half
    a request and wait cannot block others.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_limit(REQUEST_SECONDS)
        if len(self.connections) > CONNECTIONS:
            waiting = [each for each in self.connections if isinstance(each, BoundedConnection) and each._is_receiving]
            oldest = min(waiting, key=lambda each: each._limit.when() if each._limit else 0.0, default=self)
            oldest._drop()

    def data_received(self, data: bytes) -> None:
        if self._limit is None:
            self._set_limit(REQUEST_SECONDS)
        super().data_received(data)
        self._update_limit()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_limit()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._clear_limit()  # pings limit how long a visitor is silent
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_limit()
        super().connection_lost(exc)

    @property
    def _is_receiving(self) -> bool:
        """Whether no request, or a part of one, has arrived."""
        begun = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        return begun or self.conn.their_state is h11.SEND_BODY

    def _update_limit(self) -> None:
        if self.transport.get_protocol() is not self or self._is_receiving:
            return  # a WebSocket by now, or the limit that runs stays
        self._clear_limit()
        if self.cycle is not None and not self.cycle.response_complete:
            self._set_limit(ANSWER_SECONDS)

    def _set_limit(self, seconds: float) -> None:
        self._clear_limit()
        self._limit = self.loop.call_later(seconds, self._drop)

    def _clear_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _drop(self) -> None:
        self._clear_limit()
        self.transport.abort()


class _CausedByVisitors(logging.Filter):
    """Drops reports about invalid messages of visitors, whose connections are closed."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, UnicodeDecodeError | WebSocketDisconnect | ConnectionError)


class QuietSocket:
    """A socket that ignores what is sent after the visitor has disconnected."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send_text(self, data: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(data)

    async def send_bytes(self, data: bytes) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_bytes(data)


class LateWorkers:
    """The shared workers, imported in the background, because importing the engine takes as long as the first page.

    warm: compile the agents of the default request when the first visitor connects.
    """

    def __init__(self, warm: bool) -> None:
        self._warm = warm
        self._tasks: list[asyncio.Task[None]] = []

    def load(self) -> None:
        self._loading = asyncio.ensure_future(asyncio.to_thread(_shared_workers))

    async def session(self, connection: QuietSocket) -> Session:
        workers = await asyncio.shield(self._loading)

        from everystep.web.playground.sessions import Session

        if self._warm:
            self._warm = False
            self._tasks.append(asyncio.create_task(workers.compile_defaults()))
        return Session(connection, workers)

    async def close(self) -> None:
        (await self._loading).close()
        for task in self._tasks:
            task.cancel()


def _shared_workers() -> SharedWorkers:
    from everystep.web.playground.sessions import SharedWorkers

    return SharedWorkers(COMPILING)


def application(hosts: Hosts, warm: bool = True) -> ASGIApp:
    """The server as an ASGI application; `warm`: compile the default agents when the first visitor connects."""
    late = LateWorkers(warm)
    visitors: set[object] = set()

    async def serve_visitor(socket: WebSocket) -> None:
        with contextlib.suppress(WebSocketDisconnect, ConnectionError):  # a visitor who disconnects is no error
            await converse(socket)

    async def converse(socket: WebSocket) -> None:
        await socket.accept()
        if len(visitors) >= protocol.VISITORS:
            sentence = f"{protocol.VISITORS} visitors are connected, the limit of this server; try again later."
            await socket.send_json({"event": "refused", "sentence": sentence})
            await socket.close(TRY_AGAIN_LATER, sentence)
            return
        visitors.add(socket)
        session: Session | None = None
        try:
            session = await late.session(QuietSocket(socket))
            await session.greet()
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await session.receive(message.get("text") or message.get("bytes") or "")
        except EverystepError as error:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_json({"event": "refused", "sentence": str(error)})
                await socket.close(TOO_MUCH, "too many messages")
        finally:
            visitors.discard(socket)
            if session is not None:
                await session.close()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        late.load()
        yield
        await late.close()

    routes = [Route(path, _answer(content, kind)) for path, (content, kind) in files().items()]
    app = Starlette(routes=[*routes, WebSocketRoute("/learn", serve_visitor)], lifespan=lifespan)
    return RequestFilter(app, hosts)


def _answer(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def files() -> dict[str, tuple[bytes, str]]:
    """All files that the server offers, by path, with their media types; read once."""
    page = assets.page("play.html", {"version": __version__, "limits": protocol.LIMITS})
    texts = {name: assets.static(name) for name in STATIC}
    texts |= {"": page, "plotly.min.js": assets.plotly_script()}
    kinds = {"js": "text/javascript", "css": "text/css", "": "text/html"}
    return {f"/{name}": (text.encode(), kinds[name.rpartition(".")[2]]) for name, text in texts.items()}


def listening(host: str, port: int | None) -> socket.socket:
    """A socket at this port, or at a free port if it is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port or PORT, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # a name that has no form in the domain name system is a UnicodeError
        reason = error.strerror if isinstance(error, OSError) else "no valid name"
        raise EverystepError(
            f"host is '{shown(host)}', which cannot be resolved ({reason}); leave it at 127.0.0.1."
        ) from None
    for number in (address[1], 0):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], number, *address[2:]))
            return listener
        except OSError as error:
            listener.close()
            if error.errno == errno.EACCES:
                raise EverystepError(
                    f"port is {port or PORT}, which needs more permissions ({error.strerror}); choose one above 1023."
                ) from None
            if number == 0:
                raise EverystepError(
                    f"host is '{shown(host)}', which is no address of this machine ({error.strerror}); "
                    "leave it at 127.0.0.1."
                ) from None
    raise AssertionError


def configuration(app: ASGIApp) -> uvicorn.Config:
    """No log but the server's own errors, and limits on what is read and for how long."""
    logging.getLogger("uvicorn.error").addFilter(_CausedByVisitors())
    return uvicorn.Config(
        app, log_level="error", http=BoundedConnection, ws="websockets-sansio", ws_max_size=protocol.MESSAGE_BYTES,
        ws_per_message_deflate=False, timeout_graceful_shutdown=2, server_header=False,
    )  # fmt: skip


class _Server(uvicorn.Server):
    """Calls `when_started` once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.when_started()

    when_started: Callable[[], None] = staticmethod(lambda: None)


def serve(host: str, port: int | None, browser: bool) -> None:
    """Serve until Ctrl-C."""
    host = host or "127.0.0.1"
    with listening(host, port) as listener:
        hosts = Hosts(host, listener.getsockname()[1])
        shown = "127.0.0.1" if hosts.host == "0.0.0.0" else "[::1]" if hosts.host == "::" else host
        address = f"http://{f'[{shown}]' if ':' in shown and '[' not in shown else shown}:{hosts.port}/"
        config = configuration(application(hosts))
        server = _Server(config)

        def announce() -> None:
            if port is not None and hosts.port != port:
                print(f"note: port {port} is taken; another one was chosen.", file=sys.stderr)
            if not hosts.loopback:
                print("note: everyone who can reach this machine can use this server.", file=sys.stderr)
            print(f"everystep playground: {address}   (Ctrl-C stops it)", flush=True)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server.when_started = announce
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            server.run([listener])
        print("everystep playground: stopped.", flush=True)
