"""`everystep list`: problems, agents and settings."""

from __future__ import annotations

import argparse

HELP = "list problems, agents, their settings and defaults"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> None:
    from everystep import problems
    from everystep.agents.registry import REGISTERED
    from everystep.agents.settings import SETTINGS

    print(f"Problems (or a path to {problems.FILES})")
    _print_columns([[name, problem.summary] for name, problem in problems.REGISTERED.items()])
    print("\nAgents, and the prior knowledge they require")
    head = ["name", "requires", "description"]
    _print_columns([head, *([name, agent.needs, agent.summary] for name, agent in REGISTERED.items())])
    groups: dict[str, list[str]] = {}
    for key in SETTINGS:
        owners = [name for name, agent in REGISTERED.items() if key in agent.settings]
        groups.setdefault(", ".join(owners), []).append(key)
    print("\nSettings (--set key=value): name, default, description")
    for owners_named, keys in groups.items():
        print(f"\n  of {owners_named}")
        _print_columns([[key, _as_flag(SETTINGS[key].default), SETTINGS[key].help] for key in keys])
    print("\nDefaults that differ for one agent")
    differing = {name: agent.defaults for name, agent in REGISTERED.items() if agent.defaults}
    _print_columns(
        [
            [name, ", ".join(f"{key}={_as_flag(value)}" for key, value in defaults.items())]
            for name, defaults in differing.items()
        ]
    )


def _as_flag(value: object) -> str:
    """A value as it is written after --set."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_columns(rows: list[list[str]]) -> None:
    """Print rows with all columns but the last padded to the same width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        print("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))
