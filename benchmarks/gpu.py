"""How fast one GPU runs many seeds of LSVI-AE on the paper's lake: compiled plainly, and as one program per seed.

What is compared. `plain` is `loop.scan_seeds`, seeds in a batch by vmap; `fused` is `experiments.engines.gpu`, its
programs with several layouts (warps per program, numbers per load). Both make their own draws, plan, evaluate
every plan exactly, act and learn, 100 episodes per call; only sums leave the device. Time is that of all calls
from an empty start until the last sum is there, after a warm-up call; variants are compiled before, several at a
time, on all cores.

Before anything is timed, the kernel is compared with the plain scan on the GPU and, in 64-bit numbers, on the CPU.
A variant that cannot be compiled or run is reported with the end of its error and omitted.

    python benchmarks/gpu.py [--seeds 1 256 4096 65536] [--episodes 1000] [--budget 220]
"""

from __future__ import annotations

import argparse
import os
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents import lsvi_ae
from everystep.agents.settings import PRECISIONS
from everystep.experiments.engines import gpu
from everystep.lsvi import loop
from everystep.problems import frozen_lake

CAPACITY = gpu.EPISODES
BEGAN = time.perf_counter()


# The first is what `fused` takes by itself, and what is tried with few seeds.
LAYOUTS = {
    "float32": (gpu.Layout(4, 4), gpu.Layout(1, 1), gpu.Layout(2, 1), gpu.Layout(1, 4)),
    "float64": (gpu.Layout(4, 2), gpu.Layout(4, 1), gpu.Layout(2, 1)),
}


class Variant(NamedTuple):
    """One way to run many seeds. Without a layout: compiled plainly."""

    precision: str
    seeds: int
    layout: gpu.Layout | None = None
    capacity: int = CAPACITY

    def __str__(self) -> str:
        way = "plain" if self.layout is None else f"fused, {self.layout.warps} warps, width {self.layout.width}"
        calls = "" if self.capacity == CAPACITY else f", {self.capacity} episodes a call"
        return f"{self.precision} {self.seeds:>6,} seeds  {way}{calls}"


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:5.0f} s] {text}", flush=True)


class Bench:
    """The lake and its agent; what was compiled, and how fast it was."""

    def __init__(self, episodes: int) -> None:
        self.problem, self.episodes = frozen_lake(), episodes
        with jax.enable_x64(True):
            self.built = lsvi_ae().resolve(self.problem, episodes).build()

    def given(self, seeds: int) -> tuple[loop.Job, Any]:
        """The job in the current precision, and the seeds."""
        job = loop.Job(self.built.agent, self.problem.world, self.problem.sizes)
        return jax.tree.map(gpu.in_precision, job), jnp.arange(seeds, dtype=jnp.uint32)

    def start(self, job: loop.Job, seeds: int) -> loop.Carry:
        return loop.start_seeds(job.agent, job.sizes, True, True, seeds)

    def scan(self, variant: Variant) -> Any:
        """(carry, count) -> (carry, sums), compiled."""
        capacity = variant.capacity

        def call(job: loop.Job, seeds: Any, carry: Any, count: Any) -> Any:
            if variant.layout is None:
                carry, metrics = loop.scan_seeds(job, carry, seeds, count, capacity, True)
            else:
                carry, metrics = gpu.scan_in_kernel(job, carry, seeds, count, capacity, variant.layout)
            return carry, gpu.sums(metrics)

        with jax.enable_x64(variant.precision == "float64"):
            job, seeds = self.given(variant.seeds)
            shapes = jax.eval_shape(lambda: self.start(job, variant.seeds))
            compiled = jax.jit(call, donate_argnums=2).lower(job, seeds, shapes, np.int32(1)).compile()
        return lambda carry, count: compiled(job, seeds, carry, count)

    def run(self, variant: Variant, scan: Any, limit: float) -> tuple[int, float]:
        """Episodes done and seconds; fewer episodes than asked for when they take longer than the limit."""
        with jax.enable_x64(variant.precision == "float64"):
            job, _ = self.given(variant.seeds)
            jax.block_until_ready(scan(self.start(job, variant.seeds), np.int32(3)))
            carry = jax.block_until_ready(self.start(job, variant.seeds))
            began, done, kept = time.perf_counter(), 0, []
            while done < self.episodes and (done == 0 or time.perf_counter() - began < limit):
                count = min(variant.capacity, self.episodes - done)
                carry, sums = scan(carry, np.int32(count))
                kept.append(sums)
                if variant.layout is None:  # so that the limit is kept
                    jax.block_until_ready(sums)
                done += count
            jax.block_until_ready((carry, kept))
        return done, time.perf_counter() - began


def compare(bench: Bench, precision: str, seeds: int, episodes: int, on_cpu: int) -> None:
    """The kernel against the plain scan: the same seeds, the same episodes."""
    with jax.enable_x64(precision == "float64"):
        job, names = bench.given(seeds)
        start = bench.start(job, seeds)
        count = np.int32(episodes)
        plain = loop.scan_seeds(job, start, names, count, episodes, True)
        kernel = gpu.scan_in_kernel(job, start, names, count, episodes)
        report(f"{precision}: kernel / plain on the GPU, {seeds} seeds x {episodes}", kernel, plain)
        if on_cpu:
            with jax.default_device(jax.devices("cpu")[0]):
                job, names = bench.given(on_cpu)
                start = bench.start(job, on_cpu)
                plain = loop.scan_seeds(job, start, names, count, episodes, False)
            first = jax.tree.map(lambda leaf: leaf[:on_cpu], kernel)
            report(f"{precision}: kernel / plain on the CPU, {on_cpu} seeds x {episodes}", first, plain)


def report(title: str, kernel: Any, plain: Any) -> None:
    a, b = (jax.tree.map(np.asarray, each) for each in (kernel, plain))
    same = (a[0].agent.values.arrivals == b[0].agent.values.arrivals).reshape(len(a[0].visits), -1).all(1)
    books = zip(a[1][1:4], b[1][1:4], strict=True)
    off = max(float(np.abs(x[same] - y[same]).max(initial=0)) for x, y in books)
    say(f"{title}: {same.mean():.2%} of seeds have the same counts at the end; their books differ by {off:.1e} at most")
    for name in ("value", "expected_violation", "earned"):
        x, y = getattr(a[1], name).sum(1, dtype=float), getattr(b[1], name).sum(1, dtype=float)
        gap, error = (x - y).mean(), np.hypot(x.std(), y.std()) / np.sqrt(len(x))
        say(f"    {name:18} a seed: {x.mean():.6f} / {y.mean():.6f}, {gap / max(error, 1e-30):+.2f} standard errors")


def attempt(what: str, call: Any) -> Any:
    try:
        return call()
    except Exception:
        say(f"FAILED {what}: " + " | ".join(traceback.format_exc().strip().splitlines()[-3:])[-900:])
        return None


def draws_alone(bench: Bench, precision: str, seeds: int) -> None:
    """How long the draws of a call take by themselves."""
    with jax.enable_x64(precision == "float64"):
        agent, world, names = bench.given(seeds)
        carry = bench.start(agent, seeds)
        made = jax.jit(lambda carry, names: gpu.all_draws(world, bench.sizes, carry, names, CAPACITY))
        jax.block_until_ready(made(carry, names))
        began = time.perf_counter()
        jax.block_until_ready(made(carry, names))
        took = time.perf_counter() - began
    say(f"draws alone, {precision}, {seeds:,} seeds x {CAPACITY} episodes: {took * 1e3:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 256, 4096, 65536])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=220, help="seconds after which nothing new is begun")
    args = parser.parse_args()
    say(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    bench = Bench(args.episodes)

    most, few = max(args.seeds), 1000
    order = sorted(args.seeds, reverse=True)
    layouts = lambda p, n: LAYOUTS[p] if n > few else LAYOUTS[p][:1]
    ways = {n: [Variant(p, n, way) for p in PRECISIONS for way in (*layouts(p, n), None)] for n in order}
    longer = [Variant("float32", most, LAYOUTS["float32"][0], 5 * CAPACITY)]
    speed: dict[Variant, tuple[float, int]] = {}
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 2)) as pool:
        variants = [*ways[most], *longer, *(variant for n in order[1:] for variant in ways[n])]
        compiling: dict[Variant, Future[Any]] = {
            variant: pool.submit(attempt, f"to compile {variant}", lambda v=variant: bench.scan(v))
            for variant in variants
        }
        for precision in PRECISIONS:
            on_cpu = 16 if precision == "float64" else 0
            attempt(f"to compare in {precision}", lambda p=precision, c=on_cpu: compare(bench, p, 1024, 300, c))
        for precision in PRECISIONS:
            attempt("the draws", lambda p=precision: draws_alone(bench, p, most))
        for variant in variants:
            if variant.seeds <= few:  # short runs are timed when nothing compiles any more
                [future.result() for future in compiling.values()]
            scan = compiling[variant].result()
            if scan is None or time.perf_counter() - BEGAN > args.budget:
                say(f"skipped {variant}")
                continue
            made = attempt(f"to run {variant}", lambda v=variant, s=scan: bench.run(v, s, limit=6.0))
            if made is None:
                continue
            done, seconds = made
            speed[variant] = (variant.seeds * done / seconds, done)
            say(f"{variant}: {done} episodes in {seconds:.3f} s, {speed[variant][0] / 1e6:.3f} million seed-episodes/s")
    table(speed, args.seeds, args.episodes)


def table(speed: dict[Variant, tuple[float, int]], seeds: list[int], episodes: int) -> None:
    """Best of each way, as the page on performance has it."""
    print("\nMillion seed-episodes a second; the last column is the time of all episodes of all seeds, fused.\n")
    print(f"| precision | seeds | plain | fused | warps, width | fused / plain | {episodes:,} episodes, s |")
    print("|---|---|---|---|---|---|---|")
    for precision in PRECISIONS:
        for n in seeds:
            ways = {v: s for v, (s, _) in speed.items() if (v.precision, v.seeds) == (precision, n)}
            plain = next((s for v, s in ways.items() if v.layout is None), None)
            best = max((v for v in ways if v.layout is not None), key=ways.__getitem__, default=None)
            cells = [precision, f"{n:,}", "-" if plain is None else f"{plain / 1e6:.3f}"]
            if best is None or best.layout is None:
                print("| " + " | ".join([*cells, "-", "-", "-", "-"]) + " |")
                continue
            ratio = "-" if plain is None else f"{ways[best] / plain:.1f}"
            took, layout = n * episodes / ways[best], f"{best.layout.warps}, {best.layout.width}"
            print("| " + " | ".join([*cells, f"{ways[best] / 1e6:.3f}", layout, ratio, f"{took:.3f}"]) + " |")


if __name__ == "__main__":
    main()
