"""What a training returns, and the error that keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError, path_from
from everystep.experiments import statistics
from everystep.experiments.folder import run_folder
from everystep.training.diagnosis import record
from everystep.training.policy import card as policy_card
from everystep.training.policy.evaluation import Evaluation
from everystep.training.policy.policy import CARD, Policy

if TYPE_CHECKING:
    import pyarrow as pa


class BrokenError(EverystepError):
    """Training failed. `result` is the result so far, as `train` returns it.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> calls = []
    >>> def constraint(obs, action, obs_next, info):
    ...     calls.append(obs)
    ...     return -1.0 if len(calls) <= 8 else float("nan")
    >>> try:
    ...     es.train(env, episodes=5, constraint=constraint)
    ... except es.BrokenError as error:
    ...     print(len(error.result.columns["return"]), "episodes are kept")
    2 episodes are kept
    """

    def __init__(self, sentence: str, result: TrainingResult | None) -> None:
        super().__init__(sentence)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process receives the sentence alone: the result may hold functions, which cannot be sent."""
        return type(self), (str(self), None)


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """The result of training. `print` shows its summary.

    columns    an array for each column, one entry per episode: return, length, violation (the sum of max(g, 0)),
               violation_1 ... where there are several constraints, unsafe_steps, soft_violation, planned
    policy     acts on observations, without exploration
    evaluation the episodes that the policy played after training, if any
    plans      the number of plans; for rare plans it is printed beside the bound of the theory, up to a constant

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> result = es.train(env, episodes=3)
    >>> result.episodes.num_rows, result.plans
    (3, 3)
    >>> result.save("out/pond").name
    'pond'
    >>> es.Policy.load("out/pond/policy")(0) == result.policy(0)
    True
    """

    columns: dict[str, np.ndarray]
    policy: Policy
    plans: int
    spec: dict[str, Any]
    remarks: tuple[str, ...]
    evaluation: Evaluation | None = None
    found: Mapping[str, object] = field(default_factory=dict)  # for spec.json (diagnosis/record.py)

    @property
    def episodes(self) -> pa.Table:
        """A table with one row per episode, as of a run."""
        import pyarrow as pa

        return pa.table(dict(self.columns))

    def save(self, out: str | Path, force: bool = False) -> Path:
        """Write a run folder: episodes.parquet, spec.json and policy/. A folder in use is refused.

        A file that another program wrote or changed is replaced only with `force`.
        """
        target = path_from("out", out)
        with run_folder.folder(target, self.spec, force) as folder:
            self.fill(folder)
        return target

    def fill(self, folder: Path) -> None:
        """Write the files of a run folder into a folder that is being filled."""
        import pyarrow.parquet as pq

        from everystep.training.policy import evaluation_file

        with (folder / "episodes.parquet").open("wb") as file:
            pq.write_table(self.episodes, file, compression="zstd")
        saved = None if self.evaluation is None else evaluation_file.of(self, self.evaluation)
        self.policy.save(folder / "policy")
        bound = {"policy": files.seal(folder / "policy" / "policy.json").sha256}  # so that no other takes its place
        files.write_text(folder / "policy" / CARD, policy_card.text(self, saved))
        if saved is not None:
            files.write(folder / evaluation_file.NAME, lambda file: file.write(saved.to_bytes()))
        files.write_json(folder / "spec.json", {**self.spec, **bound, record.KEY: self.found})

    def __str__(self) -> str:
        n, total = len(self.columns["return"]), self.columns["violation"].sum()
        last = statistics.episodes_at_the_end(self.columns["length"])
        at_the_end = self.columns["return"][n - last :].mean() if n else math.nan
        lines = [
            f"{self.spec['agent']} on {self.spec['environment']}: {n} episodes, {self.plans} plans{self._scale()}, "
            f"total violation {total:.4g}, mean return {at_the_end:.4g} in the last {last}, while it explored",
            str(self.evaluation or "the policy itself was not evaluated: see evaluate of train, or es.evaluate"),
            *(f"note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        spec, n = self.spec, len(self.columns["return"])
        return f"<TrainingResult of {spec['environment']}: {spec['agent']}; {n:,} episodes>"

    def _scale(self) -> str:
        """d log(1 + K), or d H log(1 + K), for agents that plan rarely."""
        spec, d = self.spec, self.spec["d"]
        if not isinstance(spec["settings"].get("switch"), float) or d is None:
            return ""
        estimators, words = (1, "d") if spec["settings"]["share_values"] else (spec["horizon"], "d H")
        return f" ({words} log(1 + K) = {d * estimators * math.log1p(len(self.columns['return'])):.0f})"
