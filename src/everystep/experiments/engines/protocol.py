"""The contracts of engines: what computes episodes, and what computes the work units of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from everystep.lsvi.loop import Carry, Job, Metrics
from everystep.mdp.world import AnyArray

if TYPE_CHECKING:
    from everystep.experiments.experiment import Experiment
    from everystep.experiments.folder.checkpoints import Ledger, WorkUnit
    from everystep.experiments.work_units import Chunk, WorkUnits


class Scan(Protocol):
    """A compiled loop over episodes: `gpu.scan_seeds`, which calls `gpu.scan_in_kernel` or `loop.scan_seeds`."""

    def __call__(
        self, job: Job, carries: Carry, seeds: AnyArray, count: AnyArray, capacity: int
    ) -> tuple[Carry, Metrics]:
        """`count` <= `capacity` episodes of every seed; the rows of `Metrics` after `count` are zeros.

        A seed does the same alone as among others, and, up to rounding, in every loop.
        """
        ...


class Engine(Protocol):
    """Computes the work units of a run: on this machine (`runner.LocalEngine`) or a cluster (`runner.RayEngine`).

    What an engine computes does not depend on the order of the units or on how often they are interrupted.
    """

    @property
    def device(self) -> str:
        """The kind of device. A run is continued on the same kind, because its bits depend on it."""
        ...

    def batch_size(self, prepared: Experiment) -> int:
        """How many seeds of an experiment make up a work unit."""
        ...

    def run(
        self, units: WorkUnits, left: Sequence[WorkUnit], ledger: Ledger, take: Callable[[WorkUnit, Chunk], bool],
        work: Path,
    ) -> dict[WorkUnit, str]:  # fmt: skip
        """Run the units that are `left`; return those that failed, with the reason.

        `ledger.restore` returns the state from which a unit continues. `take` is called in this process, from any
        thread, with every finished chunk, and returns whether the unit is finished. `work` holds the files of the run.
        """
        ...
