"""All kinds of inputs: importing this module registers them."""

from fuzz import (  # noqa: F401
    experiments,
    folders,
    misbehaving,
    places,
    problem_files,
    python_api,
    results,
    surroundings,
    trainings,
)
from fuzz.folders import make_templates

__all__ = ["make_templates"]
