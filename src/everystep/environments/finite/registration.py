"""The problems' gymnasium ids, registered once gymnasium and this package are both imported, in either order.

    import everystep, gymnasium
    env = gymnasium.make("everystep/FrozenLake-v0")

Nothing is imported at the top, because gymnasium takes longer to import than everything `everystep --help` needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

ENTRY_POINT = "everystep.environments.finite.gym:CMDPEnv"


def register_ids() -> None:
    """Register every id if gymnasium is imported, and otherwise as soon as it is."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:
        sys.meta_path.insert(0, RegisterOnImport())
    else:
        register_ids_with(gymnasium)


def register_ids_with(gymnasium: ModuleType) -> None:
    """Register the ids of all problems with gymnasium, also of those that are registered later.

    Other arguments of `gymnasium.make` are parameters of the problem.
    """
    from everystep.problems.registry import ProblemDefinition, for_each_problem

    def register_id(problem: ProblemDefinition) -> None:
        if problem.gym_id is not None and problem.gym_id not in gymnasium.registry:
            gymnasium.register(problem.gym_id, entry_point=ENTRY_POINT, kwargs={"problem": problem.name})

    for_each_problem(register_id)


class RegisterOnImport:
    """An import hook that registers the ids right after gymnasium is imported, and then removes itself.

    It is needed when `everystep` is imported first:

        import everystep, gymnasium
        gymnasium.register_envs(everystep)                      # does nothing with its argument (gymnasium 1.4)
        gymnasium.make("everystep:everystep/FrozenLake-v0")     # import_module finds everystep in sys.modules

    Neither call runs code of this package, gymnasium 1.0 and later reads no entry points, and importing gymnasium here
    would slow down every command. So the ids are registered when gymnasium is imported.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find gymnasium as the other finders do; its loader then also registers the ids."""
        if name != "gymnasium":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:  # the module may be loaded again from the same spec
                sys.meta_path.remove(self)
            register_ids_with(module)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
