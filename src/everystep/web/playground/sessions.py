"""One visitor: what the page asked for, the agents that learn for it, and the frames that go back.

    page:   check | start | restart | play | pause | step | speed | shown | export        (protocol.py)
    server: hello | scene | infeasible | refused | preparing | ready | frame | paused | over | exporting | exported

A session owns its agents and nothing else; sessions share threads and compiled programs. Every agent of a session
advances by a stretch of episodes at a time, short enough to take about `STRETCH` seconds, and hands its thread to
whoever waits longest: so nobody is kept waiting by somebody else's large lake. Programs are compiled in threads of
their own, for that takes seconds.
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
from everystep.web.playground import lakes, protocol
from everystep.web.playground.protocol import Message, Wish

FRAMES_PER_SECOND = 20
STRETCH = 0.08  # seconds of work of one agent between frames, at most: a longer one would not look smooth
AHEAD = 3  # frames sent and not yet taken by the page
BEHIND = 0.5  # seconds after which a run that is slower than asked for gives up catching up
PROGRAMS = 200  # compiled ones that are kept
CURVES = ("return", "value", "regret", "violation", "expected_violation", "unsafe_steps")
T = TypeVar("T")


class Wire(Protocol):
    """The two things a session needs of a socket."""

    async def send_text(self, data: str) -> None: ...
    async def send_bytes(self, data: bytes) -> None: ...


@dataclass
class Program:
    """A compilation: begun, or waiting for its turn for as long as somebody waits for it."""

    job: Future[None]
    awaited: int = 0


class Workshop:
    """What all sessions share: compiled programs, and threads for stretches of episodes, for compiling, for exports."""

    def __init__(self, compiling: str = "") -> None:
        threads = max(2, local.workers())
        self._programs: dict[Hashable, Program] = {}
        self._running = ThreadPoolExecutor(threads, "everystep-run")
        self._compiling = ThreadPoolExecutor(2, compiling)
        self._exporting = ThreadPoolExecutor(1, "everystep-export")

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._running, work, *arguments)

    async def compile(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._compiling, work, *arguments)

    async def ready(self, prepared: Experiment, label: str) -> None:
        """Compile what an agent needs, unless somebody has done so or is at it: JAX would do it twice."""
        shape = await self.compile(_shape, prepared, label)
        if shape not in self._programs:
            if len(self._programs) >= PROGRAMS:
                self._programs.clear()
                jax.clear_caches()  # whoever runs now compiles once more: rare, and the server stays small
            self._programs[shape] = Program(self._compiling.submit(_compile, prepared, label))
        program = self._programs[shape]
        program.awaited += 1
        try:
            await asyncio.shield(asyncio.wrap_future(program.job))  # others may wait for it when this visitor has gone
        finally:
            program.awaited -= 1
            if not program.awaited:
                program.job.cancel()  # if it has not begun
            if program.job.cancelled() or (program.job.done() and program.job.exception() is not None):
                self._programs.pop(shape, None)

    async def warm(self) -> None:
        """Compile for what the page opens with, while the visitor still looks at it."""
        prepared = await self.compile(lakes.prepared, protocol.DEFAULTS)
        for label in prepared.agents:
            await self.ready(prepared, label)

    async def export(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._exporting, work, *arguments)

    def close(self) -> None:
        for pool in (self._running, self._compiling, self._exporting):
            pool.shutdown(wait=pool is self._exporting, cancel_futures=True)  # an export removes its folder


class Run:
    """The agents of one press on run, side by side: all have done the same number of episodes when `busy` is free."""

    def __init__(self, number: int, wish: Wish, prepared: Experiment) -> None:
        self.number, self.wish = number, wish
        self.players = [watch.Player(prepared, label, wish.seed) for label in prepared.agents]
        self.stretches: dict[str, list[dict[str, np.ndarray]]] = {player.label: [] for player in self.players}
        self.busy = asyncio.Lock()

    @property
    def done(self) -> int:
        return min(player.done for player in self.players)

    @property
    def left(self) -> int:
        return self.wish.episodes - self.done

    def so_far(self) -> lakes.SoFar:
        """What is to be exported: taken at one moment, so that the run may go on."""
        curves = {
            label: {name: np.concatenate([each[name] for each in parts]) for name in parts[0]} if parts else {}
            for label, parts in self.stretches.items()
        }
        return lakes.SoFar(self.done, curves, {player.label: player.ending() for player in self.players})


class Session:
    """A visitor's side of the conversation; `heard` is called with every message, `close` when the visitor has gone."""

    def __init__(self, wire: Wire, workshop: Workshop) -> None:
        self._wire, self._workshop = wire, workshop
        self._run: Run | None = None
        self._wish: Wish | None = None
        self._playing, self._steps, self._rate = False, 0, 200
        self._pause_said = False
        self._sent, self._taken, self._runs = 0, 0, 0
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._aside: set[asyncio.Task[None]] = set()
        self._heard_at: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)

    async def greet(self) -> None:
        await self._say({"say": "hello", **catalogue()})

    async def heard(self, text: str | bytes) -> None:
        """Do what a message asks for, or say why not; more than so many a second end the conversation."""
        now = time.monotonic()
        if len(self._heard_at) == self._heard_at.maxlen and now - self._heard_at[0] < 1:
            raise EverystepError(
                f"more than {protocol.MESSAGES_PER_SECOND} messages came in a second; the connection is closed, reload."
            )
        self._heard_at.append(now)
        await self._told(self._read_and_obey(text))

    async def close(self) -> None:
        await self._stop()
        for task in self._aside:
            task.cancel()

    async def _read_and_obey(self, text: str | bytes) -> None:
        await self._obey(protocol.read(text))

    async def _obey(self, message: Message) -> None:
        fields = message.fields
        if message.do in ("play", "pause", "step"):
            self._pause_said = False
        match message.do:
            case "check":
                said = await self._workshop.run(lakes.examined, fields["settings"])
                await self._say({**said, "number": fields["number"]})
            case "start":
                await self._stop()
                self._wish = fields["settings"]
                self._begin()
            case "restart":
                if self._wish is None:
                    raise EverystepError("nothing was started yet; press run first.")
                await self._stop()
                self._begin()
            case "play" | "pause" | "step" if self._wish is None:
                raise EverystepError("nothing was started yet; press run first.")
            case "play":
                self._playing = True
            case "pause":
                self._playing, self._steps = False, 0
            case "step":
                self._playing, self._steps = False, self._steps + 1
            case "speed":
                self._rate = fields["rate"]
            case "shown":
                self._taken = max(self._taken, min(fields["frame"], self._sent))
            case "export":
                run = self._exportable()
                task = asyncio.create_task(self._told(self._export(run)))
                self._aside.add(task)
                task.add_done_callback(self._aside.discard)
        self._changed.set()

    # --- a run -------------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        self._playing, self._steps, self._run, self._pause_said = True, 0, None, False
        self._taken = self._sent  # a frame that was cut off by the end of the run before is not waited for
        self._runs += 1
        self._work = asyncio.create_task(self._told(self._learn(self._runs), run=self._runs))

    async def _stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        self._work = None

    async def _told(self, work: Coroutine[Any, Any, None], **said: int) -> None:
        """Work beside the conversation: whatever ends it is said."""
        try:
            await work
        except EverystepError as error:
            await self._say({"say": "refused", **said, "sentence": str(error)})
        except Exception as error:
            traceback.print_exc()
            sentence = f"the server made a mistake ({type(error).__name__}); its terminal says more."
            await self._say({"say": "refused", **said, "sentence": sentence})

    async def _learn(self, number: int) -> None:
        assert self._wish is not None
        run = await self._prepare(number, self._wish)
        if run is not None:
            self._run = run
            await self._play(run)

    async def _prepare(self, number: int, wish: Wish) -> Run | None:
        """Check, compile and say so; None where the map cannot be run."""
        said = await self._workshop.run(lakes.examined, wish)
        if said["say"] != "scene":
            await self._say({**said, "run": number})
            return None
        await self._say({"say": "preparing", "run": number, "agents": list(wish.agents)})
        prepared = await self._workshop.compile(lakes.prepared, wish)
        await asyncio.gather(*(self._workshop.ready(prepared, label) for label in prepared.agents))
        run = await self._workshop.run(Run, number, wish, prepared)
        first = await self._advanced(run, 0)
        told = {"agents": looks(list(prepared.agents)), "frames": first, "episodes": wish.episodes}
        await self._say({**said, "say": "ready", "run": number, **told})
        return run

    async def _play(self, run: Run) -> None:
        """Stretch after stretch, at the speed asked for, for as long as the page takes the frames."""
        due, pace = time.monotonic(), Pace()
        while run.left > 0:
            self._changed.clear()
            if self._sent - self._taken >= AHEAD or not (self._playing or self._steps):
                if not (self._playing or self._steps or self._pause_said):
                    self._pause_said = True
                    await self._say({"say": "paused", "run": run.number, "episode": run.done})
                await self._changed.wait()
                due = time.monotonic()
                continue
            if (early := due - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(early):  # not wait_for, which may lose a cancellation
                        await self._changed.wait()  # a pause at a low speed need not wait
                continue
            count = 1 if self._steps else pace.episodes(self._rate)
            self._steps = max(0, self._steps - 1)
            began = time.monotonic()
            told = await self._advanced(run, min(count, run.left))
            pace.took(count, time.monotonic() - began)
            due = max(due + count / self._rate, time.monotonic() - BEHIND)
            self._sent += 1
            await self._say(
                {"say": "frame", "run": run.number, "frame": self._sent, "episode": run.done, "agents": told}
            )
        await self._say({"say": "over", "run": run.number, "episode": run.done})

    async def _advanced(self, run: Run, count: int) -> dict[str, Any]:
        """What every agent did in `count` episodes more, by its label; begun, it is done to its end."""
        return await asyncio.shield(asyncio.ensure_future(self._advance(run, count)))

    async def _advance(self, run: Run, count: int) -> dict[str, Any]:
        async with run.busy:
            done = await asyncio.gather(*(self._workshop.run(player.advance, count) for player in run.players))
            told = {}
            for player, (stretch, frame) in zip(run.players, done, strict=True):
                if stretch.columns:
                    run.stretches[player.label].append(stretch.columns)
                told[player.label] = frame.told() | {"curves": _shown(stretch.columns)}
            return told

    def _exportable(self) -> Run:
        """The run to export, or the sentence that says why there is none."""
        if self._run is None:
            raise EverystepError("nothing was run yet; run at least one episode before you export.")
        if self._playing and self._run.left:
            raise EverystepError("the run is going on; pause it before you export.")
        if self._aside:
            raise EverystepError("an export is being made; wait for it.")
        return self._run

    async def _export(self, run: Run) -> None:
        await self._say({"say": "exporting"})
        async with run.busy:
            so_far = await self._workshop.run(run.so_far)
        zipped = await self._workshop.export(lakes.exported, run.wish, so_far)
        await self._say({"say": "exported", "name": "everystep-run.zip", "bytes": len(zipped)})
        await self._wire.send_bytes(zipped)

    async def _say(self, message: Mapping[str, Any]) -> None:
        await self._wire.send_text(json.dumps(message, allow_nan=False, separators=(",", ":")))


class Pace:
    """How many episodes to run between two frames: as the speed asks for, but `STRETCH` seconds at most."""

    def __init__(self) -> None:
        self._seconds = STRETCH  # of an episode; the first frame shows one

    def episodes(self, rate: int) -> int:
        return max(1, min(round(rate / FRAMES_PER_SECOND), int(STRETCH / self._seconds)))

    def took(self, count: int, seconds: float) -> None:
        """Learn quickly that it is slow, slowly that it is quick: one late thread is no reason to hurry."""
        each = seconds / count
        self._seconds = max(each, 0.7 * self._seconds + 0.3 * each)


def catalogue() -> dict[str, Any]:
    """What the page must know to draw its form: limits, agents, cost models, and the paper's lake."""
    from everystep.agents.registry import REGISTERED

    of = lambda name: {"needs": REGISTERED[name].needs, "summary": REGISTERED[name].summary}
    return {
        "limits": protocol.LIMITS,
        "agents": [look | of(look["label"]) for look in looks(protocol.AGENT_NAMES)],
        "cost_models": list(protocol.COST_MODELS),
        "defaults": protocol.DEFAULTS._asdict(),
    }


def looks(labels: Sequence[str]) -> list[dict[str, str]]:
    """How agents look on the page: as in every figure, whoever else is there."""
    every = {look["label"]: look for look in assets.looks(protocol.AGENT_NAMES)}
    return [every[label] for label in labels]


def _shape(prepared: Experiment, label: str) -> Hashable:
    """What an agent's programs depend on."""
    with jax.enable_x64(True):
        cell = local.AgentOnProblem(prepared.problem, prepared.agents[label].build())
    return cell.structure(), prepared.problem.sizes


def _compile(prepared: Experiment, label: str) -> None:
    """Run one episode and forget it: then all programs are there."""
    watch.Player(prepared, label, 0).advance(1)


def _shown(columns: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    return {name: columns[name].tolist() for name in CURVES if name in columns}
