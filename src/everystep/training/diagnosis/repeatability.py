"""Does an environment repeat under its seed?"""

from __future__ import annotations

from everystep.environments.play.global_draws import NAMES, GlobalDraws
from everystep.training.diagnosis.finding import Finding


def global_draws_finding(draws: GlobalDraws) -> Finding | None:
    """That the environment does not repeat, if it was seen to draw from a global generator."""
    if not draws.found:
        return None
    return Finding(
        "seeds",
        f"the environment draws from {' and '.join(NAMES[each] for each in draws.found)}, which its seed does not "
        "set, so the same seed gives other episodes",
        "let it draw from self.np_random",
    )
