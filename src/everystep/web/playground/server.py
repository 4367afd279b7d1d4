"""`everystep play`: a small server for one's own machine.

It answers GET for a fixed list of files, held in memory, and one WebSocket. It refuses whatever else a browser may be
tricked into sending: other hosts' names (so that a name which is made to point at this machine is of no use), other
origins, bodies, long messages. No address that a browser sends is ever looked up on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from everystep.errors import EverystepError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ImportError as error:
    raise EverystepError(
        f"`everystep play` needs the package {error.name}, which is not installed; pip install 'everystep[play]'."
    ) from None

from everystep import __version__
from everystep.web import assets
from everystep.web.playground import protocol

if TYPE_CHECKING:
    from everystep.web.playground.sessions import Session, Workshop

PORT = 8765
COMPILING = "everystep-compile"  # how threads are called that may still be busy at the end
TRY_AGAIN_LATER, TOO_MUCH = 1013, 1008
STATIC = (
    *("board.js", "curves.js", "play.js", "painting.js", "form.js", "sharing.js", "lanes.js"),
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
    """The names under which this server may be asked for: how it was bound decides."""

    host: str
    port: int

    def accepts(self, name: str) -> bool:
        """Whether a Host header names this server: a loopback name, the name it was bound to, or, bound to all
        addresses, any address; always with the right port."""
        if self.port == 80 and not name.endswith(":80"):  # which browsers leave out
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


class Gate:
    """Refuses what no page of ours sends, before anything looks at it; puts the same headers on all answers."""

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
            return 421, "This server does not go by that name; open the address that `everystep play` printed."
        if (origin is None and scope["type"] == "websocket") or (origin is not None and origin != f"http://{host}"):
            return 403, "This server answers its own page only, no other origin."
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            return 405, "This server answers GET only."
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "This server takes no request with a body."
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return sending


class Line:
    """A socket to a visitor who may be gone: then nobody minds what is sent."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send_text(self, data: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(data)

    async def send_bytes(self, data: bytes) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_bytes(data)


class LateWorkshop:
    """What makes agents learn: imported while the first page is on its way, because that takes as long as the page.

    warm: as soon as somebody comes it compiles for the lake that the page opens with.
    """

    def __init__(self, warm: bool) -> None:
        self._warm = warm
        self._tasks: list[asyncio.Task[None]] = []

    def load(self) -> None:
        self._loading = asyncio.ensure_future(asyncio.to_thread(_workshop))

    async def session(self, line: Line) -> Session:
        workshop = await asyncio.shield(self._loading)

        from everystep.web.playground.sessions import Session

        if self._warm:
            self._warm = False
            self._tasks.append(asyncio.create_task(workshop.warm()))
        return Session(line, workshop)

    async def close(self) -> None:
        (await self._loading).close()
        for task in self._tasks:
            task.cancel()


def _workshop() -> Workshop:
    from everystep.web.playground.sessions import Workshop

    return Workshop(COMPILING)


def application(hosts: Hosts, warm: bool = True) -> ASGIApp:
    """The server as an ASGI application; `warm`: it compiles for the paper's lake as soon as somebody comes."""
    late = LateWorkshop(warm)
    visitors: set[object] = set()

    async def converse(socket: WebSocket) -> None:
        await socket.accept()
        if len(visitors) >= protocol.VISITORS:
            sentence = (
                f"{protocol.VISITORS} visitors are here already, which is all this server takes; try again later."
            )
            await socket.send_json({"say": "refused", "sentence": sentence})
            await socket.close(TRY_AGAIN_LATER, sentence)
            return
        visitors.add(socket)
        session: Session | None = None
        try:
            session = await late.session(Line(socket))
            await session.greet()
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await session.heard(message.get("text") or message.get("bytes") or "")
        except EverystepError as error:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_json({"say": "refused", "sentence": str(error)})
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
    app = Starlette(routes=[*routes, WebSocketRoute("/learn", converse)], lifespan=lifespan)
    return Gate(app, hosts)


def _answer(content: bytes, kind: str) -> Any:
    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def files() -> dict[str, tuple[bytes, str]]:
    """Everything there is to fetch, by its address, with its type: read once, from the packages themselves."""
    page = assets.page("play.html", {"version": __version__, "limits": protocol.LIMITS})
    texts = {name: assets.static(name) for name in STATIC}
    texts |= {"": page, "plotly.min.js": assets.plotly_script()}
    kinds = {"js": "text/javascript", "css": "text/css", "": "text/html"}
    return {f"/{name}": (text.encode(), kinds[name.rpartition(".")[2]]) for name, text in texts.items()}


def listening(host: str, port: int | None) -> socket.socket:
    """A socket at this port, or at a free one if it is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port or PORT, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise EverystepError(
            f"host is '{host}', which cannot be found ({error.strerror}); leave it at 127.0.0.1."
        ) from None
    for number in (address[1], 0):
        ear = socket.socket(family, socket.SOCK_STREAM)
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            ear.bind((address[0], number, *address[2:]))
            return ear
        except OSError as error:
            ear.close()
            if error.errno == errno.EACCES:
                raise EverystepError(
                    f"port is {port or PORT}, where you may not listen ({error.strerror}); choose one above 1023."
                ) from None
            if number == 0:
                raise EverystepError(
                    f"host is '{host}', where nothing can listen ({error.strerror}); leave it at 127.0.0.1."
                ) from None
    raise AssertionError


def configuration(app: ASGIApp) -> uvicorn.Config:
    """Quiet, and with limits on what it reads."""
    return uvicorn.Config(
        app, log_level="error", ws="websockets-sansio", ws_max_size=protocol.MESSAGE_BYTES,
        ws_per_message_deflate=False, timeout_graceful_shutdown=2, server_header=False,
    )  # fmt: skip


class _Server(uvicorn.Server):
    """Says where it is once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.when_started()

    when_started: Any = staticmethod(lambda: None)


def serve(host: str, port: int | None, browser: bool) -> None:
    """Serve until Ctrl-C."""
    host = host or "127.0.0.1"
    with listening(host, port) as ear:
        hosts = Hosts(host, ear.getsockname()[1])
        shown = "127.0.0.1" if hosts.host == "0.0.0.0" else "[::1]" if hosts.host == "::" else host
        address = f"http://{f'[{shown}]' if ':' in shown and '[' not in shown else shown}:{hosts.port}/"
        config = configuration(application(hosts))
        server = _Server(config)

        def tell() -> None:
            if port is not None and hosts.port != port:
                print(f"note: port {port} is taken; this is another.", file=sys.stderr)
            if not hosts.loopback:
                print("note: everybody who can reach this machine can use this server.", file=sys.stderr)
            print(f"everystep playground: {address}   (Ctrl-C ends it)", flush=True)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server.when_started = tell
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            server.run([ear])
        print("everystep playground: ended.", flush=True)
