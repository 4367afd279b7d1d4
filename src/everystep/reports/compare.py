"""`es.compare`: agents on problems, or trainings side by side, as `everystep compare` does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from everystep.agents.arguments import SEVERAL_SEEDS, refuse_unknown
from everystep.agents.registry import Recipe, recipe, where_settings_belong
from everystep.errors import EverystepError, check_type, listed, path_from, true_or_false
from everystep.experiments.options import Seeds
from everystep.reports import comparison
from everystep.reports.training import comparison as training_comparison
from everystep.runtime.progress import announced, counting


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `es.compare` returns; `print` shows its tables.

    rows   a dictionary for each agent on each problem, or for each training: numbers over seeds are intervals
           (`mean`, `low`, `high`) of runs, and arrays with an entry for each seed of trainings

    >>> found = es.compare(problems=["streaming"], agents=["lsvi-ae", "uniform"], episodes=20, seeds=2)
    >>> [row["agent"] for row in found.rows]
    ['lsvi-ae', 'uniform']
    """

    rows: list[dict[str, object]]
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rows)} rows>"


@refuse_unknown("compare", {**where_settings_belong(), **SEVERAL_SEEDS})
def compare(
    folders: Sequence[str | Path] = (),
    *,
    problems: Sequence[str] | None = None,
    agents: Iterable[str | Recipe] | None = None,
    ablation: bool = False,
    episodes: int | None = None,
    seeds: Seeds = 32,
    progress: Callable[[int], None] | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> Comparison:
    """Compare agents on the problems that support them; or, with `folders`, trainings that are done.

    folders    folders of trainings, of `everystep train` or es.train(out=...): nothing is run
    problems   names of problems; None: all that are made for comparisons
    agents     agents by name, or with settings; None: all. Those that cannot run on a problem are left out of it
    ablation   LSVI-AE without each of its ingredients, instead of `agents`
    episodes   the number of episodes; None: the default of each problem
    seeds      their number (32: seeds 0 to 31), a range ("10:42": 10 to 41) or a list
    progress   called with n whenever n more episodes are done; None: a bar on a terminal, lines in a log
    out        a folder for the run folders and the table; runs that it holds are not repeated. None: nothing is kept
    force      also replace files in `out` that everystep did not write, or that were changed

    >>> found = es.compare(problems=["streaming"], agents=["lsvi-ae", "uniform"], episodes=20, seeds=2)
    >>> str(found).splitlines()[0]
    'streaming: H = 4, 20 episodes, 2 seeds, safe optimum 1.6223'
    """
    if folders:
        if any(given is not None for given in (problems, agents, episodes, out)) or ablation:
            raise EverystepError("folders are given, whose trainings are done; leave the other arguments out.")
        places = [path_from("folders", each) for each in ([folders] if isinstance(folders, str | Path) else folders)]
        trainings = training_comparison.read(places)
        return Comparison([training_comparison.row(each) for each in trainings], training_comparison.text(trainings))
    if progress is not None:
        check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
    if true_or_false("ablation", ablation) and agents is not None:
        raise EverystepError("agents are given, but ablation has its own agents; leave one of the two out.")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())) if out is None else path_from("out", out)
        comparison.claim(place, force)
        with announced("preparing the runs"):
            if ablation:
                prepared = comparison.ablation(problems, seeds, episodes)
            else:
                chosen = None if agents is None else [recipe(each) for each in listed("agents", agents)]
                prepared = comparison.prepare(chosen, problems, seeds, episodes)
        missing = prepared.missing(place)
        advance = progress or stack.enter_context(counting(missing.episodes, "episodes"))
        missing.run(place, lambda chunk: advance(chunk.episodes))
        table = comparison.read(place)
        if out is not None:
            table.write(place, force)
    return Comparison([row._asdict() for row in table.rows], table.text())
