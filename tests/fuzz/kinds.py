"""All kinds of inputs: importing this module registers them."""

from fuzz import experiments, folders, misbehaving, places, problem_files, python_api, results, surroundings  # noqa: F401
from fuzz.folders import make_templates

__all__ = ["make_templates"]
