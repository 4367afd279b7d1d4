"""The cost of a run before it is run: time by a short probe, memory by the size of a state, disk by the rows."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import jax

from everystep.experiments import needs
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.lsvi.loop import CHUNK
from everystep.runtime.progress import duration

PROBE = 0.3  # seconds of episodes that are measured for each agent, at least


class Estimate(NamedTuple):
    """The cost of one agent on one problem. Seconds are those of one core, by a probe after compilation."""

    label: str
    compile_seconds: float
    seconds_per_episode: float
    bytes_of_a_seed: int
    grows: bool  # whether later episodes take longer than those probed


def probe(prepared: Experiment) -> list[Estimate]:
    """Run each agent of an experiment for a moment, on its first seed."""
    estimates = []
    K = prepared.spec["episodes"]
    with jax.enable_x64(True):
        for label, pair in zip(prepared.agents, prepared.pairs, strict=True):
            size = local.batch_size([pair], len(prepared.spec["seeds"]), K)
            batch = local.in_batches(prepared.spec["seeds"][:1], 1)[0].repeat(size)
            began = time.perf_counter()
            local.measure([pair], batch, 0)
            compiled = time.perf_counter() - began
            count, spent = min(8, K), 0.0
            while True:
                began = time.perf_counter()
                local.measure([pair], batch, count)
                spent = time.perf_counter() - began
                if spent >= PROBE or count == min(CHUNK, K):
                    break
                count = min(4 * count, CHUNK, K)
            one = local.bytes_of_a_seed(pair, K)
            grows = one > 1.5 * local.bytes_of_a_seed(pair, min(K, CHUNK))
            estimates.append(Estimate(label, compiled, spent / (count * size), one, grows))
    return estimates


def table(prepared: Experiment, estimates: list[Estimate]) -> list[list[str]]:
    """A row for each agent: its time and memory."""
    seeds, K = len(prepared.spec["seeds"]), prepared.spec["episodes"]
    return [
        [
            each.label,
            str(seeds),
            str(K),
            duration(seconds(prepared, [each])) + (" or more, because its state grows" if each.grows else ""),
            f"{each.bytes_of_a_seed / 2**20:.1f} MB",
        ]
        for each in estimates
    ]


def seconds(prepared: Experiment, estimates: list[Estimate]) -> float:
    """The time on all cores of this machine."""
    episodes = len(prepared.spec["seeds"]) * prepared.spec["episodes"]
    total = sum(
        each.compile_seconds + episodes * each.seconds_per_episode / min(local.workers(), len(prepared.spec["seeds"]))
        for each in estimates
    )
    return float(total)


def memory(prepared: Experiment) -> float:
    """Bytes of memory: this process now, and what the run adds (see `needs`)."""
    import resource

    now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return now + needs.of(prepared).in_folder(**needs.counts(prepared))


def disk(prepared: Experiment) -> float:
    """Bytes on the disk while the run is unfinished."""
    return needs.of(prepared).on_disk(**needs.counts(prepared))
