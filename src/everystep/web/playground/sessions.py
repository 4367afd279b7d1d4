"""One visitor: the commands of the page, the agents that learn, and the frames that are sent back.

    page:   check | start | restart | play | pause | step | speed | received | export        (protocol.py)
    server: hello | scene | infeasible | refused | preparing | ready | frame | paused | finished | exporting | exported

A session owns its agents; sessions share threads and compiled programs. An agent advances by a segment of episodes
that takes about `SEGMENT_SECONDS`, and then gives its thread to the session that has waited longest, so a large lake
does not block other visitors. Programs are compiled in threads of their own, because that takes seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from everystep.errors import EverystepError
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.web import assets, watch
from everystep.web.drawing import Drawing
from everystep.web.playground import lakes, protocol
from everystep.web.playground.protocol import Message, PlaygroundRequest

FRAMES_PER_SECOND = 20
SEGMENT_SECONDS = 0.08  # the longest work of one agent between frames: a longer one would not look smooth
AHEAD = 3  # frames sent and not yet received by the page
BEHIND = 0.5  # seconds after which a run that is slower than the chosen speed stops catching up
PROGRAMS = 200  # the largest number of compiled programs that are kept
CURVES = ("return", "value", "regret", "violation", "expected_violation", "unsafe_steps")
NOT_STARTED = "nothing was started yet; press run first."
T = TypeVar("T")


class Connection(Protocol):
    """The part of a socket that a session needs."""

    async def send_text(self, data: str) -> None: ...
    async def send_bytes(self, data: bytes) -> None: ...


@dataclass
class Compilation:
    """A compilation, running or queued, and the number of sessions that wait for it."""

    job: Future[None]
    waiting: int = 0


class SharedWorkers:
    """Shared by all sessions: compiled programs, and threads for episodes, for compilation and for exports."""

    def __init__(self, compiling: str = "") -> None:
        threads = max(2, local.workers())
        self._programs: dict[Hashable, Compilation] = {}
        self._running = ThreadPoolExecutor(threads, "everystep-run")
        self._compiling = ThreadPoolExecutor(2, compiling)
        self._exporting = ThreadPoolExecutor(1, "everystep-export")

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._running, work, *arguments)

    async def compile(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._compiling, work, *arguments)

    async def export(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._exporting, work, *arguments)

    async def ensure_compiled(self, prepared: Experiment, label: str) -> None:
        """Compile the programs of an agent, unless that is done or under way: JAX would compile them twice."""
        structure = await self.compile(_program_structure, prepared, label)
        if structure not in self._programs:
            if len(self._programs) >= PROGRAMS:
                self._programs.clear()
                jax.clear_caches()  # running agents compile once more: rare, and the server stays small
            self._programs[structure] = Compilation(self._compiling.submit(_compile, prepared, label))
        program = self._programs[structure]
        program.waiting += 1
        try:
            await asyncio.shield(asyncio.wrap_future(program.job))  # other sessions may wait for it, too
        finally:
            program.waiting -= 1
            if not program.waiting:
                program.job.cancel()  # if it has not begun
            if program.job.cancelled() or (program.job.done() and program.job.exception() is not None):
                self._programs.pop(structure, None)

    async def compile_defaults(self) -> None:
        """Compile the agents of the default request, while the visitor still reads the page."""
        prepared = await self.compile(lakes.prepare, protocol.DEFAULTS)
        for label in prepared.agents:
            await self.ensure_compiled(prepared, label)

    def close(self) -> None:
        for pool in (self._running, self._compiling, self._exporting):
            pool.shutdown(wait=pool is self._exporting, cancel_futures=True)  # an export removes its folder


class PlaygroundRun:
    """The agents of one run, side by side: all have done the same number of episodes when `busy` is free."""

    def __init__(self, number: int, request: PlaygroundRequest, prepared: Experiment) -> None:
        self.number, self.request = number, request
        self.players = [watch.Player(prepared, label, request.seed) for label in prepared.agents]
        self.drawing = Drawing(prepared.problem)
        self.columns: dict[str, list[dict[str, np.ndarray]]] = {player.label: [] for player in self.players}
        self.busy = asyncio.Lock()

    @property
    def done(self) -> int:
        return min(player.done for player in self.players)

    @property
    def left(self) -> int:
        return self.request.episodes - self.done

    def partial(self) -> lakes.PartialRun:
        """A copy of the run so far for an export, so that the run may continue."""
        curves = {
            label: {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
            for label, parts in self.columns.items()
        }
        return lakes.PartialRun(self.done, curves, {player.label: player.ending() for player in self.players})


class Session:
    """One visitor. `receive` handles every message of the page; `close` ends the session."""

    def __init__(self, connection: Connection, workers: SharedWorkers) -> None:
        self._connection, self._workers = connection, workers
        self._run: PlaygroundRun | None = None
        self._request: PlaygroundRequest | None = None
        self._playing, self._steps, self._rate = False, 0, 200
        self._pause_sent = False
        self._frames_sent, self._frames_received, self._runs = 0, 0, 0
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._exports: set[asyncio.Task[None]] = set()
        self._received_at: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)

    async def greet(self) -> None:
        await self._send({"event": "hello", **catalogue()})

    async def receive(self, text: str | bytes) -> None:
        """Execute the command of a message, or report why it is refused; too many per second raise an error."""
        now = time.monotonic()
        if len(self._received_at) == self._received_at.maxlen and now - self._received_at[0] < 1:
            raise EverystepError(
                f"the page sent more than {protocol.MESSAGES_PER_SECOND} messages in a second; "
                "the connection is closed, reload."
            )
        self._received_at.append(now)
        await self._reporting_errors(self._parse_and_execute(text))

    async def close(self) -> None:
        await self._stop()
        for task in self._exports:
            task.cancel()

    async def _parse_and_execute(self, text: str | bytes) -> None:
        await self._execute(protocol.parse_message(text))

    async def _execute(self, message: Message) -> None:
        fields = message.fields
        if message.command in ("play", "pause", "step"):
            self._pause_sent = False
        match message.command:
            case "check":
                verdict = await self._workers.run(lakes.check, fields["settings"])
                await self._send({**verdict, "number": fields["number"]})
            case "start":
                await self._stop()
                self._request = fields["settings"]
                self._start_run()
            case "restart":
                if self._request is None:
                    raise EverystepError(NOT_STARTED)
                await self._stop()
                self._start_run()
            case "play" | "pause" | "step" if self._request is None:
                raise EverystepError(NOT_STARTED)
            case "play":
                self._playing = True
            case "pause":
                self._playing, self._steps = False, 0
            case "step":
                self._playing, self._steps = False, self._steps + 1
            case "speed":
                self._rate = fields["rate"]
            case "received":
                self._frames_received = max(self._frames_received, min(fields["frame"], self._frames_sent))
            case "export":
                run = self._exportable()
                task = asyncio.create_task(self._reporting_errors(self._export(run)))
                self._exports.add(task)
                task.add_done_callback(self._exports.discard)
        self._changed.set()

    # --- a run -------------------------------------------------------------------------------------------------------
    def _start_run(self) -> None:
        self._playing, self._steps, self._run, self._pause_sent = True, 0, None, False
        self._frames_received = self._frames_sent  # do not wait for a frame of the previous run
        self._runs += 1
        self._work = asyncio.create_task(self._reporting_errors(self._learn(self._runs), run=self._runs))

    async def _stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        self._work = None

    async def _reporting_errors(self, work: Coroutine[Any, Any, None], **about: int) -> None:
        """Await `work`; send the sentence of any error to the page."""
        try:
            await work
        except EverystepError as error:
            await self._send({"event": "refused", **about, "sentence": str(error)})
        except Exception as error:
            traceback.print_exc()
            sentence = f"the server failed ({type(error).__name__}); its terminal shows the details."
            await self._send({"event": "refused", **about, "sentence": sentence})

    async def _learn(self, number: int) -> None:
        assert self._request is not None
        run = await self._prepare(number, self._request)
        if run is not None:
            self._run = run
            await self._play(run)

    async def _prepare(self, number: int, request: PlaygroundRequest) -> PlaygroundRun | None:
        """Check the map and compile the agents; None if the map cannot be run."""
        verdict = await self._workers.run(lakes.check, request)
        if verdict["event"] != "scene":
            await self._send({**verdict, "run": number})
            return None
        await self._send({"event": "preparing", "run": number, "agents": list(request.agents)})
        prepared = await self._workers.compile(lakes.prepare, request)
        await asyncio.gather(*(self._workers.ensure_compiled(prepared, label) for label in prepared.agents))
        run = await self._workers.run(PlaygroundRun, number, request, prepared)
        agents = {"agents": looks(list(prepared.agents)), "frames": await self._advance(run, 0)}
        await self._send({**verdict, "event": "ready", "run": number, **agents, "episodes": request.episodes})
        return run

    async def _play(self, run: PlaygroundRun) -> None:
        """Run segments at the chosen speed, as long as the page receives the frames."""
        due, pace = time.monotonic(), Pace()
        while run.left > 0:
            self._changed.clear()
            if self._frames_sent - self._frames_received >= AHEAD or not (self._playing or self._steps):
                if not (self._playing or self._steps or self._pause_sent):
                    self._pause_sent = True
                    await self._send({"event": "paused", "run": run.number, "episode": run.done})
                await self._changed.wait()
                due = time.monotonic()
                continue
            if (early := due - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(early):  # not wait_for, which may lose a cancellation
                        await self._changed.wait()  # a pause at a low speed takes effect at once
                continue
            count = 1 if self._steps else pace.episodes(self._rate)
            self._steps = max(0, self._steps - 1)
            began = time.monotonic()
            frames = await self._advance(run, min(count, run.left))
            pace.record(count, time.monotonic() - began)
            due = max(due + count / self._rate, time.monotonic() - BEHIND)
            self._frames_sent += 1
            about = {"run": run.number, "frame": self._frames_sent, "episode": run.done}
            await self._send({"event": "frame", **about, "agents": frames})
        await self._send({"event": "finished", "run": run.number, "episode": run.done})

    async def _advance(self, run: PlaygroundRun, count: int) -> dict[str, Any]:
        """The frames of all agents after `count` more episodes, by label; a cancellation does not interrupt it."""
        return await asyncio.shield(asyncio.ensure_future(self._advance_all(run, count)))

    async def _advance_all(self, run: PlaygroundRun, count: int) -> dict[str, Any]:
        async with run.busy:
            done = await asyncio.gather(*(self._workers.run(player.advance, count) for player in run.players))
            frames = {}
            for player, (segment, frame) in zip(run.players, done, strict=True):
                if segment.columns:
                    run.columns[player.label].append(segment.columns)
                curves = {name: segment.columns[name].tolist() for name in CURVES if name in segment.columns}
                frames[player.label] = frame.to_json(run.drawing) | {"curves": curves}
            return frames

    def _exportable(self) -> PlaygroundRun:
        """The run to export; raises EverystepError if there is none."""
        if self._run is None:
            raise EverystepError("nothing was run yet; run at least one episode before you export.")
        if self._playing and self._run.left:
            raise EverystepError("the run has not stopped; pause it before you export.")
        if self._exports:
            raise EverystepError("an export is under way; wait until it is finished.")
        return self._run

    async def _export(self, run: PlaygroundRun) -> None:
        await self._send({"event": "exporting"})
        async with run.busy:
            partial = await self._workers.run(run.partial)
        zipped = await self._workers.export(lakes.export, run.request, partial)
        await self._send({"event": "exported", "name": "everystep-run.zip", "bytes": len(zipped)})
        await self._connection.send_bytes(zipped)

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._connection.send_text(json.dumps(message, allow_nan=False, separators=(",", ":")))


class Pace:
    """The number of episodes between two frames: as the speed requires, but at most `SEGMENT_SECONDS` of work."""

    def __init__(self) -> None:
        self._seconds = SEGMENT_SECONDS  # per episode; the first frame shows one episode

    def episodes(self, rate: int) -> int:
        return max(1, min(round(rate / FRAMES_PER_SECOND), int(SEGMENT_SECONDS / self._seconds)))

    def record(self, count: int, seconds: float) -> None:
        """Adapt at once to slower episodes, gradually to faster ones: one late thread must not shorten segments."""
        latest = seconds / count
        self._seconds = max(latest, 0.7 * self._seconds + 0.3 * latest)


def catalogue() -> dict[str, Any]:
    """What the page needs for its form: limits, agents, settings, cost models, and the default requests."""
    from everystep.agents.registry import REGISTERED
    from everystep.agents.settings import SETTINGS

    about: Callable[[str], dict[str, Any]] = lambda name: {
        "needs": REGISTERED[name].needs,
        "summary": REGISTERED[name].summary,
        "required": lakes.required_settings(name),
    }
    return {
        "limits": protocol.LIMITS,
        "agents": [look | about(look["label"]) for look in assets.looks(protocol.playable_agents())],
        "settings": {name: SETTINGS[name].help for name in protocol.SETTING_NAMES},
        "cost_models": list(protocol.COST_MODELS),
        "defaults": protocol.DEFAULTS._asdict(),
        "kinds": {kind: request._asdict() for kind, request in protocol.DEFAULTS_OF.items()},
    }


def looks(labels: Sequence[str]) -> list[dict[str, str]]:
    """The colours and dashes of agents: the same whichever other agents are chosen."""
    by_label = {look["label"]: look for look in assets.looks(protocol.playable_agents())}
    return [by_label[label] for label in labels]


def _program_structure(prepared: Experiment, label: str) -> Hashable:
    """What the compiled programs of an agent depend on."""
    with jax.enable_x64(True):
        cell = local.AgentOnProblem(prepared.problem, prepared.agents[label].build())
    return cell.structure(), prepared.problem.sizes


def _compile(prepared: Experiment, label: str) -> None:
    """Run one episode and drop it, so that all programs are compiled."""
    watch.Player(prepared, label, 0).advance(1)
