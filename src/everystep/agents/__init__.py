"""Named agents, their settings, and how both become an algorithm on a problem.

`registry` defines and registers agents, `named` holds them, `settings` and `model_syntax` parse what users write, and
`resolve/` decides every setting on a problem and makes the parts.
"""

from everystep.agents.model_syntax import register_cost_model
from everystep.agents.named import (
    lsvi,
    lsvi_ae,
    lsvi_ahead,
    lsvi_nets,
    lsvi_new,
    lsvi_priced,
    lsvi_primal,
    rpol,
    rslucb_qvi,
    slucb_qvi,
    sucbvi,
    uniform,
)
from everystep.agents.registry import REGISTERED, Parts, Recipe, recipe, register

__all__ = [
    "REGISTERED",
    "Parts",
    "Recipe",
    "lsvi",
    "lsvi_ae",
    "lsvi_ahead",
    "lsvi_nets",
    "lsvi_new",
    "lsvi_priced",
    "lsvi_primal",
    "recipe",
    "register",
    "register_cost_model",
    "rpol",
    "rslucb_qvi",
    "slucb_qvi",
    "sucbvi",
    "uniform",
]
