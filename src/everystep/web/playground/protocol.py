"""What the page of the playground may say to its server, and within which limits.

Everything a browser sends is read here: a message of text becomes a `Message`, settings become a `Wish`, and whatever
is not understood (an unknown field, a number out of range, a text that is too long) is refused in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from everystep.errors import EverystepError, unknown
from everystep.problems.frozen_lake import CELLS, PAPER_MAP
from everystep.problems.grids import SLIP

SIDE = 20  # cells of a map, across and down
HORIZON = 60
EPISODES = 10_000
AGENTS = 4  # side by side
NAME = 60  # letters
RATE = 2000  # episodes a second of each agent
VISITORS = 12  # at the same time
MESSAGE_BYTES = 16_384
MESSAGES_PER_SECOND = 60
BRACKETS = 200  # of a message: ours open six, and a name may hold some

AGENT_NAMES = ("lsvi-ae", "lsvi", "lsvi-primal", "slucb-qvi", "rslucb-qvi", "uniform")  # those that can walk a lake
COST_MODELS = ("auto", "gp", "gp(rbf(2, on=landing))", "gp(rbf(2, on=position)*categorical)")
LIMITS = {
    "side": SIDE, "horizon": HORIZON, "episodes": EPISODES, "agents": AGENTS, "name": NAME, "rate": RATE,
    "visitors": VISITORS, "message_bytes": MESSAGE_BYTES,
}  # fmt: skip


class Message(NamedTuple):
    """One thing that the page asks for: a name out of `COMMANDS`, and its fields, read."""

    do: str
    fields: Mapping[str, Any]


class Wish(NamedTuple):
    """All that a visitor set: a lake, who walks it, and how. `settings` go to every agent that has them."""

    name: str
    rows: tuple[str, ...]
    slip: float
    horizon: int
    agents: tuple[str, ...]
    episodes: int
    seed: int
    settings: Mapping[str, Any]


def read(text: str | bytes) -> Message:
    """The message that a text is, or the sentence that says why it is none."""
    if isinstance(text, bytes) or len(text.encode()) > MESSAGE_BYTES:
        raise EverystepError(f"the message is not a text of at most {MESSAGE_BYTES} bytes; send less.")
    if text.count("[") + text.count("{") > BRACKETS:  # so that nothing nests deeper than Python likes
        raise EverystepError(f"the message opens more than {BRACKETS} brackets; send an object with a field do.")
    try:
        content = json.loads(text, parse_constant=_no_number)
    except ValueError:
        raise EverystepError("the message is not JSON; send an object with a field do.") from None
    content = _object("the message", content)
    do = content.pop("do", None)
    if not isinstance(do, str) or do not in COMMANDS:
        raise unknown("command", str(do)[:NAME], COMMANDS, f"Send one of {', '.join(COMMANDS)}.")
    readers = COMMANDS[do]
    _refuse_unknown(f"of the command {do}", content, readers)
    if missing := [name for name in readers if name not in content]:
        raise EverystepError(f"the command {do} has no field {missing[0]}; send it.")
    return Message(do, {name: readers[name](name, value) for name, value in content.items()})


def wish(content: object) -> Wish:
    """Settings as a page sends them, a link or a file holds them; what is left out is as on the paper's lake."""
    given = _object("settings", content)
    _refuse_unknown("of the settings", given, DEFAULTS._asdict())
    read_fields = {name: WISH[name](name, value) for name, value in given.items()}
    return DEFAULTS._replace(**read_fields)


# --- fields ----------------------------------------------------------------------------------------------------------
Reader = Callable[[str, Any], Any]


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _object(what: str, content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise EverystepError(f"{what} is {type(content).__name__}; send an object with named fields.")
    return dict(content)


def _refuse_unknown(of: str, content: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in content:
        if name not in known:
            raise unknown(f"field {of} called", name[:NAME], known, f"Known are {', '.join(known) or 'none'}.")


def _whole(least: int, most: int) -> Reader:
    def reader(field: str, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise EverystepError(f"{field} is {_shown(value)}; give a whole number from {least} to {most}.")
        return value

    return reader


def _number(least: float, most: float) -> Reader:
    def reader(field: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise EverystepError(f"{field} is {_shown(value)}; give a number from {least:g} to {most:g}.")
        return float(value)

    return reader


def _or_auto(reader: Reader) -> Reader:
    return lambda field, value: value if value == "auto" else reader(field, value)


def _one_of(*options: object) -> Reader:
    def reader(field: str, value: Any) -> Any:
        for option in options:
            if type(value) is type(option) and value == option:
                return option
        raise EverystepError(f"{field} is {_shown(value)}; choose {', '.join(map(_shown, options))}.")

    return reader


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME or not value.isprintable():
        raise EverystepError(f"{field} is {_shown(value)}; give 1 to {NAME} printable letters.")
    return value


def _rows(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
        raise EverystepError(f"{field} is {_shown(value)}; give a list of texts, one a row of the map.")
    if not 1 <= len(value) <= SIDE or not all(1 <= len(row) <= SIDE for row in value):
        across = max(map(len, value), default=0)
        raise EverystepError(
            f"{field} has {len(value)} rows of up to {across} cells; a map is at most {SIDE} x {SIDE}."
        )
    if len(set(map(len, value))) > 1:
        raise EverystepError(f"{field} are of different lengths; make all as long as the longest.")
    for row in value:
        if strange := set(row) - set(CELLS):
            raise EverystepError(f"{field} holds {_shown(min(strange))}; use the letters {', '.join(CELLS)} only.")
    return tuple(value)


def _agents(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= AGENTS:
        raise EverystepError(f"{field} is {_shown(value)}; give a list of 1 to {AGENTS} agents.")
    for name in value:
        if name not in AGENT_NAMES:
            raise EverystepError(f"{field} holds {_shown(name)}; choose from {', '.join(AGENT_NAMES)}.")
    if len(set(value)) < len(value):
        raise EverystepError(f"{field} names one twice; leave it out.")
    return tuple(value)


def _wish(field: str, value: Any) -> Wish:
    return wish(value)


def _settings(field: str, value: Any) -> dict[str, Any]:
    given = _object(field, value)
    _refuse_unknown("of settings", given, SETTINGS)
    return {name: SETTINGS[name](name, each) for name, each in given.items()}


def _shown(value: object) -> str:
    """A value in a sentence: short, whatever was sent."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"'{text}'" if len(text) <= NAME else f"'{text[:NAME]}...'"


_CHOICE = _one_of("auto", True, False)
_WIDTH = _or_auto(_number(0, 1000))
_RIDGE = _or_auto(_number(1e-9, 1000))
SETTINGS: dict[str, Reader] = {
    "beta": _WIDTH,
    "lam": _RIDGE,
    "beta_cost": _WIDTH,
    "lam_cost": _RIDGE,
    "optimism": _number(-1, 1),
    "share_values": _CHOICE,
    "share_costs": _CHOICE,
    "cost": _one_of(*COST_MODELS),
    "known_safe": _one_of("none", "safest"),
    "react": _one_of(True, False),
}
WISH: dict[str, Reader] = {
    "name": _name,
    "rows": _rows,
    "slip": _number(0, 1),
    "horizon": _whole(1, HORIZON),
    "agents": _agents,
    "episodes": _whole(1, EPISODES),
    "seed": _whole(0, 2**32 - 1),
    "settings": _settings,
}
COMMANDS: dict[str, dict[str, Reader]] = {
    "check": {"settings": _wish, "number": _whole(0, 2**53)},  # what is there to say of this map?
    "start": {"settings": _wish},  # run from episode 1
    "restart": {},  # the same once more
    "play": {},
    "pause": {},
    "step": {},  # one episode
    "speed": {"rate": _whole(1, RATE)},  # episodes a second
    "shown": {"frame": _whole(0, 2**53)},  # the page has got this frame, and can take another
    "export": {},
}
DEFAULTS = Wish("lake", PAPER_MAP, SLIP, 15, ("lsvi-ae", "lsvi", "lsvi-primal"), 1000, 0, {})
