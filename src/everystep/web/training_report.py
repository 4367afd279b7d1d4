"""`everystep report DIR` of a training: one page that opens from the disk, without a network.

Curves and tables are those of `everystep figures` and `everystep summary`. The cost model is that of the first seed's
policy; that of a stopped seed is in the last checkpoint. Pictures show the first episode and an episode of the policy;
they were taken when the training ended, because modules that a folder names are not imported here. A sentence replaces
what cannot be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from everystep import __version__
from everystep.environments.play import coordinate_names
from everystep.experiments import tables
from everystep.reports.training import learnt
from everystep.reports.training import results as training_results
from everystep.reports.training.learnt import Learnt
from everystep.reports.training.results import TrainingResults
from everystep.training.policy import card as policy_card
from everystep.training.seeds import filmstrip
from everystep.training.seeds.filmstrip import Film
from everystep.training.seeds.request import TrainingRequest
from everystep.training.seeds.run import AGAIN
from everystep.web import assets, charts, training_charts
from everystep.web.report import check_place, counted, seeds_in_words, versions_in_words, write_page
from everystep.web.training_charts import TrainingInputs

STYLES = ("page.css", "report.css", "training.css")
SCRIPTS = ("curves.js", "charts.js", "learnt.js", "training.js")
SEEDS_WITH_REMARKS = 64
LEFT_OUT = "Pictures were left out (--no-player)."


class Contents(NamedTuple):
    """Everything that the page shows."""

    inputs: TrainingInputs
    all_learnt: dict[int, Learnt]
    films: list[Film]


def write(
    folder: Path,
    out: Path | None = None,
    pictures: bool = True,
    force: bool = False,
    along: tuple[int, ...] | None = None,
) -> Path:
    """Write the report of a training's folder (DIR/report.html) and return its path.

    `along` are the two coordinates of the observation that the cost model is shown along.
    """
    results = training_results.read(folder)
    out = check_place(folder, out, force)
    return write_page(out, page(contents(results, pictures, along)), force)


def contents(results: TrainingResults, pictures: bool = True, along: tuple[int, ...] | None = None) -> Contents:
    """What the page of a training shows."""
    first = results.seeds[0]
    found = {first.seed: learnt.read(first)}
    for each in results.seeds[1:SEEDS_WITH_REMARKS]:
        if each.finished:
            found[each.seed] = learnt.read(each, findings_only=True)
    inputs = TrainingInputs(results, found[first.seed], training_charts.model(found[first.seed], along))
    return Contents(inputs, found, _films(results, pictures))


def _films(results: TrainingResults, pictures: bool) -> list[Film]:
    first = results.seeds[0]
    if not pictures:
        return [Film("", None, LEFT_OUT)]
    if results.request is not None and not first.finished:
        return [Film("", None, "There are no pictures yet: they are taken when the training ends.")]
    return filmstrip.read(first.folder, AGAIN)


# --- the page ---------------------------------------------------------------------------------------------------------
def page(made: Contents) -> str:
    """The complete page."""
    inputs, results = made.inputs, made.inputs.results
    looks = assets.looks([inputs.agent])
    drawn = charts.for_page(inputs, looks, training_charts.CHARTS, training_charts.SECTIONS)
    sections = {section["name"]: section for section in drawn.sections}
    spec = inputs.learnt.spec
    return assets.page(
        "training.html",
        {
            "name": inputs.environment,
            "agent": looks[0],
            "looks": looks,
            "line": _line(results),
            "unfinished": _unfinished(results),
            "facts": _facts(made),
            "settings": [(key, _plain(value)) for key, value in spec.get("settings", {}).items()],
            "picture": next((film.strip.pictures[0] for film in made.films if film.strip), None),
            "table": _table(results),
            "notes": [_with_code(_capital(note)) for note in training_results.table(results).notes],
            "curves": sections["curves"],
            "learnt": sections.get("learnt"),
            "remarks": _remarks(made),
            "fits": _fits(made),
            "examples": _examples(made),
            "model": sections.get("model"),
            "look_ahead": inputs.learnt.policy is not None and inputs.learnt.policy.plan.ahead is not None,
            "estimates": _estimates(inputs.learnt),
            "certificates": _certificates(inputs.learnt),
            "lines": inputs.model.sliced is not None and len(inputs.model.sliced.along) > 1,
            "no_model": inputs.model.why,
            "films": [_film_row(film) for film in made.films],
            "seeds": len(results.seeds),
            "horizon": spec.get("horizon", 0),
            "content": assets.as_json({"agents": looks, "charts": drawn.content}),
            "style": assets.inlined("\n".join(assets.static(name) for name in STYLES)),
            "plotly": assets.inlined(assets.plotly_script()),
            "script": assets.inlined(assets.one_module(SCRIPTS)),
            "version": __version__,
        },
    )


def _line(results: TrainingResults) -> str:
    episodes, steps = (sum(getattr(each, name) for each in results.seeds) for name in ("episodes", "steps"))
    return counted(seed=len(results.seeds), episode=episodes, step=steps)


def _unfinished(results: TrainingResults) -> Markup | str:
    """The unfinished seeds, and the command that continues them; "" if there are none."""
    if not (left := results.unfinished):
        return ""
    which = f"Seed {left[0]} is" if len(left) == 1 else f"Seeds {seeds_in_words(left)} are"
    begun = (
        "shown as of the last checkpoint"
        if len(left) == 1
        else "those that have begun are shown as of their last checkpoint"
    )
    return _with_code(f"{which} unfinished; {begun}; {training_results.how_to_continue(results.folder)} it.")


def _with_code(text: str) -> Markup:
    """A text whose parts between backticks are shown as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _facts(made: Contents) -> list[tuple[str, str]]:
    results, first = made.inputs.results, made.inputs.learnt
    request, spec = results.request, first.spec
    values, costs = (_features(request, spec, *each) for each in (("features", "value"), ("cost_features", "cost")))
    facts: list[tuple[str, Any]] = [
        ("Environment", made.inputs.environment if request is None else request.env),
        ("Constraint", (request.constraint if request is not None else None) or first.constraint or "not recorded"),
        ("Constraints", spec.get("constraints") if spec.get("constraints") != 1 else None),
        ("Agent", results.agent),
        ("Features", values),
        ("Features of costs", costs if spec.get("value") != spec.get("cost") else None),
        ("Length of phi(x, a)", spec.get("d")),
        ("Plans look ahead", _ahead(first)),
        ("Longest episode", f"{spec['length']} steps" if "length" in spec else None),
        ("Requested", None if request is None else f"{request.amount} of each seed"),
        ("Seeds", seeds_in_words([each.seed for each in results.seeds])),
        ("Versions", versions_in_words(spec)),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _features(request: TrainingRequest | None, spec: Mapping[str, Any], asked_as: str, saved_as: str) -> str | None:
    """The features as requested, else as resolved."""
    asked = None if request is None else getattr(request, asked_as)
    if asked not in (None, "auto") or saved_as not in spec:
        return asked
    return f"{policy_card.features_in_words(spec[saved_as])}{', chosen by evidence' if asked else ''}"


def _ahead(first: Learnt) -> str | None:
    if first.quality is not None:
        return f"{', '.join(map(str, first.quality['horizons']))} steps, discounted and averaged"
    return f"{first.spec['horizon']} steps" if "horizon" in first.spec else None


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(results: TrainingResults) -> dict[str, Any]:
    """The table of seeds; the last columns are of the evaluation."""
    found = training_results.table(results)
    labels = [*found.head[:6], *(f"evaluation: {each.removeprefix('evaluation: ')}" for each in found.head[6:])]
    return {"labels": [_capital(each) for each in labels], "rows": found.rows, "over_seeds": found.over_seeds}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- remarks and estimates --------------------------------------------------------------------------------------------
def _remarks(made: Contents) -> list[dict[str, str]]:
    """Every remark once, with its seeds unless it applies to all."""
    of: dict[str, list[int]] = {}
    for seed, found in made.all_learnt.items():
        for remark in found.remarks:
            of.setdefault(remark, []).append(seed)
    everywhere = [seed for seed, found in made.all_learnt.items() if found.remarks]
    which: Callable[[list[int]], str] = lambda seeds: (
        "" if len(everywhere) == 1 or seeds == everywhere else _named(seeds)
    )
    return [{"text": _capital(remark), "seeds": which(seeds)} for remark, seeds in of.items()]


def _named(seeds: Sequence[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {seeds_in_words(seeds)}"


def _fits(made: Contents) -> list[list[str]]:
    """The errors of the cost estimates of each seed, in the second half of its episodes."""
    share: Callable[[float, float], str] = lambda part, whole: (
        f"{part:,.0f} ({part / whole:.1%})" if whole else f"{part:,.0f}"
    )
    return [
        [
            f"{seed}",
            f"{fit['error']:.3g}",
            f"{fit['steps']:,.0f}",
            share(fit["unsafe"], fit["steps"]),
            share(fit["believed_safe"], fit["unsafe"]),
            share(fit["without_safe_action"], fit["steps"]),
        ]
        for seed, found in made.all_learnt.items()
        if (fit := found.fit) is not None
    ]


def _examples(made: Contents) -> list[str]:
    """Observations at which no action was estimated to be safe."""
    found = []
    for each in made.all_learnt.values():
        for example in [] if each.fit is None else each.fit["examples"]:
            names = coordinate_names.of_coordinates(made.inputs.environment, len(example))
            found.append(", ".join(f"{name} {value:.3g}" for name, value in zip(names, example, strict=True)))
    return found[:3]


def _estimates(first: Learnt) -> str:
    """The quantity that the intervals of the cost model bound."""
    if first.policy is None:
        return ""
    plan = first.policy.plan
    ahead = plan.ahead
    if ahead is None:
        many = first.spec.get("constraints", 1) > 1
        return "the worst of the constraints g(x, a)" if many else "the constraint g(x, a)"
    tolerance = float(plan.in_units(np.full((1, 1, 1), ahead.tolerance)).max())
    how = "within the horizon" if first.quality is None else f"within {_ahead(first)}"
    return f"the harm that an action leads to {how}, less the tolerance of {tolerance:.3g}"


def _certificates(first: Learnt) -> str:
    """What the labels guarantee; "" for a seed that cannot be restored."""
    if first.policy is None:
        return ""
    return policy_card.certificates_in_words(first.spec, first.policy.plan.optimism)


def _film_row(film: Film) -> dict[str, Any]:
    if film.strip is None:
        return {"title": film.title, "why": film.why, "pictures": []}
    strip = film.strip
    line = (
        f"{strip.length:,} steps, return {tables.number(strip.earned)}, violation {tables.number(strip.violation)}, "
        f"{strip.unsafe:,} unsafe {'step' if strip.unsafe == 1 else 'steps'}"
    )
    return {"title": film.title, "why": "", "line": line, "pictures": strip.pictures}
