"""The messages that the page of the playground may send to its server, and their limits.

Everything a browser sends is parsed here: a text becomes a `Message`, settings become a `PlaygroundRequest`. An unknown
field, a number out of range or a text that is too long is refused in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from everystep.errors import EverystepError, unknown
from everystep.problems.frozen_lake import CELLS, PAPER_MAP
from everystep.problems.grids import SLIP

SIDE = 20  # cells of a map, in each direction
HORIZON = 60
TOP_SPEED = 3
EPISODES = 10_000
AGENTS = 4  # in one run
NAME = 60  # characters
RATE = 2000  # episodes per second and agent
VISITORS = 12  # at the same time
MESSAGE_BYTES = 16_384
MESSAGES_PER_SECOND = 60
BRACKETS = 200  # in one message: the page sends six, and a name may hold some

# Settings on offer: their ranges are those of agents/settings.py. Cost models are a fixed list, because each compiles.
SETTING_NAMES = (
    *("beta", "lam", "beta_cost", "lam_cost", "optimism", "share_values", "share_costs"),
    *("cost", "known_safe", "react"),
)
COST_MODELS = ("auto", "gp", "gp(rbf(2, on=landing))", "gp(rbf(2, on=position)*categorical)")
LIMITS = {
    "side": SIDE, "horizon": HORIZON, "top_speed": TOP_SPEED, "episodes": EPISODES, "agents": AGENTS, "name": NAME,
    "rate": RATE, "visitors": VISITORS, "message_bytes": MESSAGE_BYTES,
}  # fmt: skip


# A racetrack on which braking in time matters from the first episodes on.
BEND = (
    "#############",
    "####......GG#",
    "###.......GG#",
    "##........GG#",
    "##....#######",
    "#.....#######",
    "#....########",
    "#....########",
    "#SSSS########",
    "#############",
)


class Message(NamedTuple):
    """One command of the page: a key of `COMMANDS`, and its parsed fields."""

    command: str
    fields: Mapping[str, Any]


class PlaygroundRequest(NamedTuple):
    """What a visitor asks for: a map, agents, and their settings, which apply to every agent that has them.

    A map is of a kind: `slip` is used on a lake only, `top_speed` and `failure` on a racetrack only.
    """

    kind: str
    name: str
    rows: tuple[str, ...]
    slip: float
    top_speed: int
    failure: float
    horizon: int
    agents: tuple[str, ...]
    episodes: int
    seed: int
    settings: Mapping[str, Any]


def playable_agents() -> list[str]:
    """The agents on offer: those that their definitions call playable."""
    from everystep.agents import REGISTERED  # late: it imports the engine, and the first page need not wait

    return [name for name, agent in REGISTERED.items() if agent.playable]


def parse_message(text: str | bytes) -> Message:
    """Parse a message; raise EverystepError with one sentence if it is not valid."""
    if isinstance(text, bytes) or len(text.encode()) > MESSAGE_BYTES:
        raise EverystepError(f"the message is not a text of at most {MESSAGE_BYTES} bytes; send less.")
    if text.count("[") + text.count("{") > BRACKETS:  # limits the nesting, which Python's parser handles by recursion
        raise EverystepError(f"the message opens more than {BRACKETS} brackets; send an object with a field command.")
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        raise EverystepError("the message is not JSON; send an object with a field command.") from None
    content = _object("the message", content)
    command = content.pop("command", None)
    if not isinstance(command, str) or command not in COMMANDS:
        raise unknown("command", str(command)[:NAME], COMMANDS, f"Send one of {', '.join(COMMANDS)}.")
    parsers = COMMANDS[command]
    _refuse_unknown(f"of the command {command}", content, parsers)
    if missing := [name for name in parsers if name not in content]:
        raise EverystepError(f"the command {command} has no field {missing[0]}; send it.")
    return Message(command, {name: parsers[name](name, value) for name, value in content.items()})


def parse_request(content: object) -> PlaygroundRequest:
    """Parse the settings of a page, a link or a file; omitted fields have the values of the paper's lake, or of
    the usual racetrack."""
    given = _object("settings", content)
    _refuse_unknown("of the settings", given, REQUEST_FIELDS)
    parsed = {name: REQUEST_FIELDS[name](name, value) for name, value in given.items()}
    return DEFAULTS_OF[parsed.get("kind", "lake")]._replace(**parsed)


# --- fields ----------------------------------------------------------------------------------------------------------
FieldParser = Callable[[str, Any], Any]


def _refuse_constant(name: str) -> NoReturn:
    """NaN and infinities are not JSON."""
    raise ValueError(name)


def _object(what: str, content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise EverystepError(f"{what} is {type(content).__name__}; send an object with named fields.")
    return dict(content)


def _refuse_unknown(of: str, content: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in content:
        if name not in known:
            raise unknown(f"field {of} called", name[:NAME], known, f"Known are {', '.join(known) or 'none'}.")


def _whole(least: int, most: int) -> FieldParser:
    def parser(field: str, value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise EverystepError(f"{field} is {_shown(value)}; give a whole number from {least} to {most}.")
        return value

    return parser


def _number(least: float, most: float) -> FieldParser:
    def parser(field: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise EverystepError(f"{field} is {_shown(value)}; give a number from {least:g} to {most:g}.")
        return float(value)

    return parser


def _kind(field: str, value: object) -> str:
    if not isinstance(value, str) or value not in DEFAULTS_OF:
        raise EverystepError(f"{field} is {_shown(value)}; choose {' or '.join(DEFAULTS_OF)}.")
    return value


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME or not value.isprintable():
        raise EverystepError(f"{field} is {_shown(value)}; give 1 to {NAME} printable characters.")
    return value


def _rows(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
        raise EverystepError(f"{field} is {_shown(value)}; give a list of texts, one for each row of the map.")
    if not 1 <= len(value) <= SIDE or not all(1 <= len(row) <= SIDE for row in value):
        width = max(map(len, value), default=0)
        raise EverystepError(f"{field} has {len(value)} rows of up to {width} cells; a map is at most {SIDE} x {SIDE}.")
    if len(set(map(len, value))) > 1:
        raise EverystepError(f"{field} have different lengths; make all as long as the longest.")
    for row in value:
        if unknown_letters := set(row) - set(CELLS):
            raise EverystepError(
                f"{field} holds {_shown(min(unknown_letters))}; use the letters {', '.join(CELLS)} only."
            )
    return tuple(value)


def _agents(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= AGENTS:
        raise EverystepError(f"{field} is {_shown(value)}; give a list of 1 to {AGENTS} agents.")
    for name in value:
        if name not in playable_agents():
            raise EverystepError(f"{field} holds {_shown(name)}; choose from {', '.join(playable_agents())}.")
    if len(set(value)) < len(value):
        raise EverystepError(f"{field} names one agent twice; leave it out.")
    return tuple(value)


def _request(field: str, value: object) -> PlaygroundRequest:
    return parse_request(value)


def _settings(field: str, value: object) -> dict[str, Any]:
    given = _object(field, value)
    _refuse_unknown("of settings", given, dict.fromkeys(SETTING_NAMES))
    return {name: _setting(name, own) for name, own in given.items()}


def _setting(name: str, value: object) -> Any:
    """A setting within the range that agents/settings.py gives it, sent as the JSON type that it has."""
    from everystep.agents.settings import SETTINGS  # late, as above

    if name == "cost" and value not in COST_MODELS:
        raise EverystepError(f"{name} is {_shown(value)}; choose {', '.join(map(_shown, COST_MODELS))}.")
    try:
        if not isinstance(value, bool | int | float | str):
            raise ValueError("send a number, a text, true or false")
        parsed = SETTINGS[name].read(value)
    except ValueError as error:
        raise EverystepError(f"{name} is {_shown(value)}; {error}.") from None
    if name != "cost" and _json_type(parsed) != _json_type(value):
        raise EverystepError(f"{name} is {_shown(value)}; send {_json_type(parsed)}, not {_json_type(value)}.")
    return value


def _json_type(value: object) -> str:
    return "true or false" if isinstance(value, bool) else "a text" if isinstance(value, str) else "a number"


def _shown(value: object) -> str:
    """A value for a sentence, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"'{text}'" if len(text) <= NAME else f"'{text[:NAME]}...'"


REQUEST_FIELDS: dict[str, FieldParser] = {
    "kind": _kind,
    "name": _name,
    "rows": _rows,
    "slip": _number(0, 1),
    "top_speed": _whole(1, TOP_SPEED),
    "failure": _number(0, 1),
    "horizon": _whole(1, HORIZON),
    "agents": _agents,
    "episodes": _whole(1, EPISODES),
    "seed": _whole(0, 2**32 - 1),
    "settings": _settings,
}
COMMANDS: dict[str, dict[str, FieldParser]] = {
    "check": {"settings": _request, "number": _whole(0, 2**53)},  # whether the map is feasible, and its optimum
    "start": {"settings": _request},  # run from episode 1
    "restart": {},  # run the same request again
    "play": {},
    "pause": {},
    "step": {},  # one episode
    "speed": {"rate": _whole(1, RATE)},  # episodes per second
    "received": {"frame": _whole(0, 2**53)},  # the page has received this frame and is ready for another
    "export": {},
}
DEFAULTS = PlaygroundRequest(
    "lake", "lake", PAPER_MAP, SLIP, 2, 0.0, 15, ("lsvi-ae", "lsvi", "lsvi-primal"), 1000, 0, {}
)
DEFAULTS_OF = {
    "lake": DEFAULTS,
    "racetrack": DEFAULTS._replace(
        kind="racetrack",
        name="track",
        rows=BEND,
        horizon=20,
        agents=("lsvi-ahead", "lsvi-ae", "lsvi"),
    ),
}
