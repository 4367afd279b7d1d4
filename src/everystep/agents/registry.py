"""The registry of agents: the definition of an agent, and how one is registered.

    @register("lsvi", settings=VALUE_SETTINGS, summary="optimistic values, violations ignored (LSVI-UCB)", ...)
    def lsvi(s: Parts) -> Agent:
        return Agent(s.value_model(), s.cost_model(), NoPenalty(), Greedy(), s["optimism"], switch=s.switch)

The decorated function then makes a `Recipe`: `lsvi(beta=0.3)`. See docs/extending.md.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from everystep.agents.arguments import unknown_keyword
from everystep.agents.resolve.context import setting_as_text
from everystep.agents.settings import SETTINGS, UNCLIPPED, SettingValues
from everystep.errors import EverystepError, check_type, quoted, unknown, whole_number
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.penalties import Floor
from everystep.lsvi.protocols import Choice, CostModel, LookAhead, Pytree, ValueModel
from everystep.mdp.cmdp import FiniteCMDP

if TYPE_CHECKING:
    from everystep.agents.resolve.agent import Resolved


class Parts(Protocol):
    """The settings of an agent, resolved on a problem or an environment, and the parts made from them.

    >>> stream = es.problems.streaming()
    >>> parts = es.agents.lsvi_ae(optimism=0).resolve(stream, episodes=10)
    >>> parts["optimism"], parts.switch, parts.known_safe, sorted(parts.options)
    (0.0, None, None, ['known_safe', 'optimism', 'switch'])
    >>> made = (parts.value_model(), parts.cost_model(), parts.penalised(rectify=True))
    >>> [type(each).__name__ for each in made], type(parts.floor()).__name__
    (['Counts', 'CountCosts', 'Penalised'], 'Floor')
    >>> type(es.agents.lsvi_ahead().resolve(stream, episodes=10).harm_to_go()).__name__
    'HarmToGo'
    >>> type(es.agents.sucbvi().resolve(stream, episodes=10).marked()).__name__
    'Marked'
    >>> type(es.agents.rslucb_qvi().resolve(stream, episodes=10).safe_mixture()).__name__
    'SafeMixture'
    >>> mixture = es.problems.synthetic()
    >>> type(es.agents.lsvi_new().resolve(mixture, episodes=10).safe_graph()).__name__
    'SafeGraph'
    """

    def __getitem__(self, setting: str) -> Any:
        """The value of a setting, with `auto` decided."""

    def value_model(self) -> ValueModel[Pytree, Pytree]: ...
    def cost_model(self) -> CostModel[Pytree]: ...
    def floor(self) -> Floor: ...
    def penalised(self, rectify: bool) -> Choice[Pytree]:
        """The choice of eq. (11), made again at every step if the setting `react` is true."""

    def harm_to_go(self) -> LookAhead:
        """The estimate of the harm that a decision leads to, as `mode`, `harm`, `tolerance` and `beta_harm` say."""

    def marked(self) -> LookAhead:
        """The potentially unsafe states of SUCBVI."""

    def safe_mixture(self) -> Choice[Pytree]: ...
    def safe_graph(self) -> Choice[Pytree]: ...
    @property
    def known_safe(self) -> np.ndarray | None:
        """Actions known to be safe, booleans (A, S), or None."""

    @property
    def switch(self) -> float | None:
        """The factor of rare switching, or None."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `Agent` after its four parts, as set: `optimism`, `known_safe` and `switch`."""


class AgentDefinition(NamedTuple):
    """Everything the library knows about a named agent.

    compose   the agent as a composition of parts
    settings  the names of its settings
    needs     the prior knowledge it requires, in a few words
    summary   a description in one line
    title     its name in figures and on pages
    colour    its colour there; None: one is assigned
    dashes    its line style there, in matplotlib's notation
    defaults  the defaults of its settings that differ from those of other agents
    suited    defaults that depend on the problem
    uses_costs            whether it estimates costs
    requires_safe_action  whether it requires a known safe action in every state
    uses_triple_features  whether it requires the features of all triples (x, a, x')
    trainable             whether it can be trained on environments
    playable              whether the playground offers it
    networks              whether it learns by networks: on environments alone, without features
    """

    compose: Callable[[Parts], Agent]
    settings: tuple[str, ...]
    needs: str
    summary: str
    title: str
    colour: str | None = None
    dashes: object = "-"
    defaults: Mapping[str, Any] = MappingProxyType({})
    suited: Callable[[FiniteCMDP], dict[str, Any]] = lambda problem: {}
    uses_costs: bool = True
    requires_safe_action: bool = False
    uses_triple_features: bool = False
    trainable: bool = False
    playable: bool = False
    networks: bool = False

    def lowest_value(self, cap: float) -> float:
        """What no value is below in units of the range of rewards: 0, but nothing where `cap` is none.

        Nothing either where violations have a price, which makes rewards negative.
        """
        return -UNCLIPPED if cap == UNCLIPPED or "violation_price" in self.settings else 0.0


REGISTERED: dict[str, AgentDefinition] = {}
TRAINED_BY_DEFAULT = "auto"  # on environments: `suited_to` selects the agent
LOOKS_AHEAD, BY_NETWORKS = "lsvi-ahead", "lsvi-nets"
OF_TRAIN = ("constraint", "horizon", "length", "episodes", "steps", "seed", "reward_range", "memory")  # no settings


def register(
    name: str,
    *,
    settings: tuple[str, ...],
    summary: str,
    needs: str = "nothing",
    title: str | None = None,
    **facts: Any,
) -> Callable[[Callable[[Parts], Agent]], Callable[..., Recipe]]:
    """Register a composition of parts as the agent `name`; `facts` are further fields of `AgentDefinition`.

    >>> @es.agents.register("indifferent", settings=("beta",), summary="plays as LSVI does")
    ... def indifferent(parts):
    ...     return es.agents.REGISTERED["lsvi"].compose(parts)
    >>> indifferent(beta=0.3).label
    'indifferent(beta=0.3)'
    """
    check_type("name", name, str, "the name of the agent as a string")
    check_type("settings", settings, (tuple, list), "the names of its settings as a tuple")
    for argument, value in (("needs", needs), ("summary", summary), ("title", name if title is None else title)):
        check_type(argument, value, str, "a text")
    if name in REGISTERED:
        raise EverystepError(f"agent '{name}' is registered already; choose another name.")
    if missing := [key for key in settings if not isinstance(key, str) or key not in SETTINGS]:
        raise unknown("setting", missing[0], SETTINGS, "`everystep list` shows all.")

    def decorate(compose: Callable[[Parts], Agent]) -> Callable[..., Recipe]:
        check_type("the agent", compose, Callable, "a function of its settings")  # type: ignore[arg-type]
        REGISTERED[name] = AgentDefinition(compose, settings, needs, summary, title or name, **facts)

        @wraps(compose)
        def make(*given: object, **settings: object) -> Recipe:
            if given:
                raise EverystepError(f"{make.__name__} has no arguments by position; give settings by name: beta=0.3.")
            return Recipe(name, settings)

        del make.__wrapped__  # its signature is that of its settings
        make.__annotations__ = {"return": Recipe}
        make.__signature__ = _signature(REGISTERED[name])  # type: ignore[attr-defined]
        make.__doc__ = _with_settings(make.__doc__ or f"{summary}.", REGISTERED[name])
        return make

    return decorate


class Annotation(str):
    """The type of a setting, which signatures show without quotation marks."""

    __repr__ = str.__str__


def _signature(definition: AgentDefinition) -> inspect.Signature:
    """The settings of an agent as keywords with their types and defaults, for `help` and completion."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            key,
            keyword,
            default=definition.defaults.get(key, SETTINGS[key].default),
            annotation=Annotation(SETTINGS[key].read.type),
        )
        for key in dict.fromkeys(definition.settings)
    ]
    return inspect.Signature(parameters, return_annotation=Annotation(Recipe.__name__))


def _with_settings(docstring: str, definition: AgentDefinition) -> str:
    """The docstring of an agent with its settings as a list, before its examples."""
    if not definition.settings:
        return docstring
    text, *examples = inspect.cleandoc(docstring).partition(">>> ")
    width = max(map(len, definition.settings)) + 2
    lines = [
        textwrap.fill(key.ljust(width) + SETTINGS[key].help, 110, subsequent_indent=" " * width, break_on_hyphens=False)
        for key in dict.fromkeys(definition.settings)
    ]
    listed = "\n".join([text.rstrip(), "", "Its settings:", "", *lines])
    return listed + ("\n\n" + "".join(examples) if examples[0] else "\n")


def where_settings_belong() -> dict[str, str]:
    """For functions that take an agent: every setting, with an agent that has it."""
    first = (LOOKS_AHEAD, *REGISTERED)
    owner = {key: next(name for name in first if key in REGISTERED[name].settings) for key in SETTINGS}
    return {
        key: f"give it to the agent, as in es.agents.{name.replace('-', '_')}({key}=...)" for key, name in owner.items()
    }


def _unknown_setting(agent: str, key: object) -> EverystepError:
    owners = {key: ", ".join(name for name, each in REGISTERED.items() if key in each.settings) for key in SETTINGS}
    elsewhere = {name: f"give it to es.train, as in es.train(env, agent, {name}=...)" for name in OF_TRAIN}
    elsewhere |= {key: f"it is a setting of {names}" for key, names in owners.items()}
    known = REGISTERED[agent].settings
    return unknown_keyword(f"setting of {agent}", key, known, elsewhere, "`everystep list` shows all.")


@dataclass(frozen=True)
class Recipe:
    """The specification of an agent: name, settings, optional label. `resolve(problem, episodes).build()` makes it.

    >>> agent = es.agents.lsvi_ae(beta=0.3)
    >>> agent.label, agent.called("mine").label
    ('lsvi-ae(beta=0.3)', 'mine')
    >>> agent.definition.title, agent.all_settings()["lam"]
    ('LSVI-AE', 'auto')
    >>> resolved = agent.resolve(es.problems.streaming(), episodes=10)
    >>> resolved["lam"], resolved["share_costs"]
    (0.003, True)
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    alias: str | None = None
    given: Mapping[str, Any] = field(init=False, repr=False, compare=False)  # the settings as the user wrote them

    def __post_init__(self) -> None:
        if not isinstance(self.settings, Mapping):
            raise EverystepError(f"settings of an agent are {quoted(self.settings)}; give them by name.")
        if self.alias is not None and not isinstance(self.alias, str):
            raise EverystepError(f"alias of {self.name} is {quoted(self.alias)}; give a text.")
        object.__setattr__(self, "given", dict(self.settings))
        if not isinstance(self.name, str) or self.name not in REGISTERED:
            raise unknown("agent", self.name, REGISTERED, "`everystep list` shows all.")
        allowed = REGISTERED[self.name].settings
        read = {}
        for key, value in self.settings.items():
            if key not in allowed:
                raise _unknown_setting(self.name, key)
            try:
                read[key] = SETTINGS[key].read(value)
            except ValueError as error:
                raise EverystepError(f"setting {key} of {self.name} is {quoted(value)}; {error}.") from None
        object.__setattr__(self, "settings", read)

    @property
    def definition(self) -> AgentDefinition:
        return REGISTERED[self.name]

    def all_settings(self, suited: Mapping[str, Any] = MappingProxyType({})) -> SettingValues:
        """All settings: general defaults, overridden by the agent's, those `suited` to a problem, and the user's."""
        defaults = {key: setting.default for key, setting in SETTINGS.items()}
        return SettingValues(defaults | dict(self.definition.defaults) | dict(suited) | dict(self.settings))

    @property
    def label(self) -> str:
        """The name that distinguishes it: 'lsvi-ae', or 'lsvi-ae(beta=0.3)' if the user set something."""
        if self.alias is not None:
            return self.alias
        if not self.settings:
            return self.name
        return f"{self.name}({', '.join(f'{key}={setting_as_text(value)}' for key, value in self.settings.items())})"

    def called(self, alias: str) -> Recipe:
        """The same agent under another label in tables, figures and files."""
        return Recipe(self.name, self.given, alias)

    def resolve(self, problem: FiniteCMDP, episodes: int) -> Resolved:
        """All settings with their values on this problem; raises if a setting does not fit."""
        check_type("problem", problem, FiniteCMDP, "a FiniteCMDP")
        episodes = whole_number("episodes", episodes)
        from everystep.agents.resolve.agent import Resolved

        return Resolved.resolve(problem, episodes, self)


def suited_to(listed: bool, numbered: bool, features: bool) -> str:
    """The agent that is trained where none is named.

    listed      whether observations are states of a list, which lsvi-ahead counts
    numbered    whether actions are numbers, not candidates of a Box, which share data in lsvi-ahead
    features    whether features were given, which networks do not use
    """
    return BY_NETWORKS if numbered and not listed and not features else LOOKS_AHEAD


def recipe(agent: str | Recipe) -> Recipe:
    """An agent from its name; a recipe as it is.

    >>> es.agents.recipe("lsvi-ae").label
    'lsvi-ae'
    >>> es.agents.recipe(es.agents.lsvi_ae(beta=0.3)).label
    'lsvi-ae(beta=0.3)'
    """
    return agent if isinstance(agent, Recipe) else Recipe(agent)
