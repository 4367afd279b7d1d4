"""The environments' names, known to gymnasium as soon as it and this package are both imported, in either order.

    import everystep, gymnasium
    env = gymnasium.make("everystep/FrozenLake-v0")

Gymnasium (1.0 and later) looks for no plugins, and importing it takes longer than everything the command needs for its
help. So nothing is imported here: names are registered at once where gymnasium is there already, else when it comes.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

IDS = {
    "everystep/FrozenLake-v0": "frozen-lake",
    "everystep/Bandit-v0": "bandit",
    "everystep/BanditContinuum-v0": "bandit-continuum",
    "everystep/HardInstance-v0": "hard-instance",
    "everystep/Linear-v0": "linear",
    "everystep/RobotMap-v0": "robot-map",
    "everystep/Streaming-v0": "streaming",
    "everystep/Synthetic-v0": "synthetic",
    "everystep/Terrain-v0": "terrain",
}


def register(gymnasium: Any) -> None:
    """Tell gymnasium every name; settings of the problem are what `gymnasium.make` is given besides."""
    for name, problem in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="everystep.environments.gym:CMDPEnv", kwargs={"problem": problem})


def arrange() -> None:
    """Register now if gymnasium is imported, else as soon as it is."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and hasattr(gymnasium, "register"):
        register(gymnasium)
    elif not any(isinstance(finder, WhenItComes) for finder in sys.meta_path):
        sys.meta_path.insert(0, WhenItComes())


class WhenItComes:
    """Finds gymnasium as the other finders do, and registers once it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register(module)

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
