"""Inputs that are words: experiment files, settings, sizes, and flags in odd combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz.cases import COMMAND, NUMBERS, TEXTS, Bench, Case
from fuzz.problem_files import AGENTS, damaged_text, run_case

COMMANDS = (
    "reproduce",
    "run",
    "resume",
    "summary",
    "certify",
    "theory",
    "figures",
    "report",
    "compare",
    "play",
    "list",
)
PROBLEMS = (
    "frozen-lake",
    "terrain",
    "linear",
    "synthetic",
    "hard-instance",
    "bandit",
    "bandit-continuum",
    "streaming",
    "robot-map",
    "racetrack",
    "inventory",
    "thermostat",
)
SMALL = ("synthetic", "bandit", "streaming", "hard-instance", "frozen-lake")
SETTINGS = (
    "beta", "lam", "radius", "p", "cap", "features", "value", "share_values", "switch", "precision", "beta_cost",
    "lam_cost",
    "radius_cost", "sigma", "bound", "cost", "share_costs", "optimism", "known_safe", "safe_action", "threshold",
    "kappa", "react",
    "floor", "rectify", "seed_episodes", "safety_bonus", "lipschitz",
)  # fmt: skip
WORDS = (
    "auto",
    "none",
    "true",
    "false",
    "tuned",
    "paper",
    "coordinate",
    "float32",
    "one-hot",
    "safest",
    "printed",
    "k",
    "sqrt",
)


def argument(text: str) -> str:
    """A text that can be a word of a command: without the character that ends one."""
    return text.replace("\x00", "")


# --- models -----------------------------------------------------------------------------------------------------------
KERNELS = (
    "rbf",
    "matern32",
    "matern52",
    "linear",
    "categorical",
    "constant",
    "difference",
    "custom",
    "rbff",
    "RBF",
    "__import__",
)
ON = ("position", "landing", "move", "state", "action", "features", "nothing", "''", "1", "None")


def kernel(bench: Bench, depth: int = 0) -> str:
    rng = bench.rng
    if depth < 3 and bench.chance(0.3):
        operator = bench.pick((" + ", "*", " - ", "/", "**", "@", " and ", " if ", ","))
        return kernel(bench, depth + 1) + operator + kernel(bench, depth + 1)
    if bench.chance(0.15):
        return str(bench.pick(NUMBERS))
    name = bench.pick(KERNELS if bench.chance(0.3) else KERNELS[:6])
    inner = []
    if name == "difference":
        inner.append(kernel(bench, depth + 1))
    elif bench.chance(0.7):
        inner.append(
            str(
                bench.pick((1, 2, 0.5, 3, "1e-9", "[1, 2]", "(1, 2)", "[]"))
                if bench.chance(0.6)
                else bench.pick(NUMBERS)
            )
        )
    if bench.chance(0.6):
        inner.append(f"on={bench.pick(ON)}")
    if bench.chance(0.1):
        inner.append(
            bench.pick(
                (
                    "length=2",
                    "length=nan",
                    "foo=1",
                    "*[1]",
                    "**{}",
                    "alike=0.5",
                    "weight=-1",
                    "value=1e400",
                    "x for x in y",
                )
            )
        )
    text = f"{name}({', '.join(inner)})"
    if bench.chance(0.1):
        at = int(rng.integers(len(text) + 1))
        text = (
            text[:at] + bench.pick(("(", ")", "[", "'", "\\", "\n", "#", "lambda", " ", "\u202e", "((((")) + text[at:]
        )
    return text


def model(bench: Bench) -> str:
    if bench.chance(0.05):
        return bench.pick(
            (
                "gp(" * 200 + ")" * 200,
                "[" * 500,
                "(" * 3000 + ")" * 3000,
                "gp(" + "rbf(1)+" * 500 + "rbf(1))",
                "-" * 5000 + "1",
                "gp(rbf(" + "9" * 6000 + "))",
            )
        )
    if bench.chance(0.12):
        return f"[{', '.join(model(bench) for _ in range(int(bench.rng.integers(0, 4))))}]"
    name = bench.pick(("gp", "gp", "kernel", "counts", "linear", "auto", "regression", "GP", ""))
    inner = [kernel(bench)] if bench.chance(0.8) else []
    if bench.chance(0.2):
        inner.append(
            bench.pick(
                (
                    "points=growing",
                    "points=grid",
                    "points='x'",
                    "kernel=rbf(1)",
                    "fit=3",
                )
            )
        )
    return f"{name}({', '.join(inner)})" if bench.chance(0.9) else name


def setting(bench: Bench) -> str:
    key = bench.pick(SETTINGS)
    if bench.chance(0.35):
        key, value = bench.pick(("cost", "cost", "value")), model(bench)
    elif bench.chance(0.3):
        value = str(bench.pick((0, 1, 0.5, 2, -1, 1e-9, 1e9, 100)))
    elif bench.chance(0.5):
        value = str(bench.pick((*NUMBERS, *WORDS)))
    else:
        value = str(bench.pick(TEXTS))
    owner = f"{bench.pick((*AGENTS, 'nobody', '', '*', 'a.b'))}." if bench.chance(0.15) else ""
    if bench.chance(0.05):
        key = bench.pick(TEXTS)
    return argument(f"{owner}{key}{bench.pick(('=', '=', '=', '=', '=', '=', '', ' = ', '==', ':'))}{value}")


PLAUSIBLE = (  # settings that can be used, some of them extreme
    "beta=0.5", "beta=0", "beta=1e308", "lam=1e-3", "lam=1e308", "lam=5e-324", "radius=paper", "radius=coordinate",
    "p=1",
    "cap=1e99", "cap=none", "cost=linear", "cost=gp(rbf(1, on=state))", "cost=gp(rbf(1e-300, on=state))",
    "cost=[counts]",
    "cost=gp(constant(1e300)*rbf(1, on=state))", "cost=gp(rbf(1, on=state), points=growing)", "value=linear",
    "value=kernel(rbf(1, on=state)*categorical)", "share_values=false", "switch=2",
    "switch=1e300", "precision=float32", "beta_cost=1e300", "beta_cost=0", "lam_cost=1e-300", "sigma=1e6", "bound=1e-9",
    "optimism=-1", "known_safe=safest", "react=true", "floor=sqrt", "floor=1e308", "rectify=true", "share_costs=false",
)  # fmt: skip


@COMMAND.kind("set", 14)
def settings(bench: Bench) -> Case:
    if bench.chance(0.25):
        words = [f"--set={each}" for each in bench.some(PLAUSIBLE, 2)]
        return run_case(bench, "--problem", bench.pick(SMALL), *words, agents="lsvi-ae")
    words = ["--problem", bench.pick(SMALL)]
    for _ in range(int(bench.rng.integers(1, 4))):
        words.append(f"--set={setting(bench)}")
    return run_case(bench, *words, agents=bench.pick((*AGENTS, "lsvi-ae", "lsvi-ae,lsvi", "lsvi-ae")))


# --- sizes ------------------------------------------------------------------------------------------------------------
SIZES = (
    "0",
    "-1",
    "1",
    "2",
    "1000",
    "1e4",
    "1e5",
    "1e6",
    "1e7",
    "1e9",
    "1e12",
    "1e15",
    "1e18",
    "1.5",
    "3.0",
    str(2**31),
    str(2**32),
    str(2**63),
)


@COMMAND.kind("sizes", 7)
def sizes(bench: Bench) -> Case:
    words = ["--problem", bench.pick(PROBLEMS)]
    flags = bench.some(("--episodes", "--seeds", "--horizon"), 2)
    for flag in flags:
        value = bench.pick(SIZES) if bench.chance(0.6) else bench.pick(NUMBERS)
        words += [flag, value] if not value.startswith("-") else [f"{flag}={value}"]
    given = {word.partition("=")[0] for word in words}
    small = [word for flag in ("--episodes", "--seeds") if flag not in given for word in (flag, "2")]
    agents = bench.pick((*AGENTS, "lsvi-ae,lsvi", "", ",", "lsvi-ae,lsvi-ae", "nobody", "lsvi-ae," * 50))
    if bench.chance(0.3) and not bench.quick:  # what is not refused is begun, and stopped when it takes long
        ending, written = ["--out", "new"], ["new"]
        if bench.chance(0.3):
            ending, written = ["--dry-run", "--out", "new"], []
        return Case(["run", *words, *small, "--agents", agents, *ending], written=written)
    case = run_case(bench, *words, agents=agents, out="used")
    (bench.here / "used").mkdir()
    (bench.here / "used" / "other.txt").write_bytes(b"something else\n")
    return Case(["run", *words, *small, "--agents", agents, "--out", "used"], shown=case.shown)


# --- experiment files -------------------------------------------------------------------------------------------------
VALUES = (
    "1", "-1", "0", "1.5", "nan", "inf", "-inf", "1e400", "9223372036854775808", "99999999999999999999999", "true",
    "false", '""', '"x"',
    "[]", "[1]", "[[1]]", "{}", "{a = 1}", "[{}]", "[{name = 1}]", '["frozen-lake"]', '["lsvi-ae"]', '[1, "a"]',
    "1979-05-27", "07:32:00",
    "1979-05-27T07:32:00Z", '"\\u0000"', '"\\n"', '"/"', '"../x"', '"."', '"\\U0001F600"', '"' + "a" * 300 + '"',
    "'''\na\n'''", "0x10", "1_000",
    '"lsvi-ae"', '"frozen-lake"', "[" * 50 + "]" * 50, "[0, 1]", "[0, 0]", "[-1]", '["a"]', '"nan"', '"gp(rbf(2))"',
    '"[gp, counts]"', "[1.5]",
)  # fmt: skip
PARAMETERS = (
    "horizon",
    "seed",
    "size",
    "length",
    "limit",
    "sigma",
    "reward",
    "cost",
    "slip",
    "arms",
    "noise",
    "states",
    "d",
    "levels",
    "u",
    "start",
    "goal",
    "heights",
    "rows",
    "kernel",
)


ODD_KEYS = ("unknown", "episode", '"a b"', '""', "episodes", "a.b.c", "settings.beta", "\u00e9")
RARE = (("seeds", '"0:2"'), ("certify", "false"), ("engine", '"local"'), ("address", '"auto"'))
STRANGERS = ("map.txt", "no.npz", "nothing", "./x.png")


def quoted(text: str) -> str:
    return f'"{text}"'


def listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def toml(bench: Bench) -> str:
    """An experiment, valid in form and often in content."""
    odd = lambda usual: bench.pick(VALUES) if bench.chance(0.12) else usual
    lines = [f"episodes = {odd('2')}", f"seeds = {odd('1')}"]
    lines += [f"{key} = {odd(usual)}" for key, usual in RARE if bench.chance(0.08)]
    if bench.chance(0.7):
        lines.append(f"out = {odd(quoted('used'))}")
    if bench.chance(0.08):
        lines.append(f"{bench.pick(ODD_KEYS)} = {bench.pick(VALUES)}")
    if bench.chance(0.5):
        names = [bench.pick(SMALL if bench.chance(0.9) else STRANGERS) for _ in range(int(bench.rng.integers(1, 3)))]
        lines.append(f"problems = {odd(listed(names))}")
        problem_tables = []
    else:
        problem_tables = ["[[problems]]", f"name = {odd(quoted(bench.pick(PROBLEMS)))}"]
        problem_tables += [f"called = {odd(quoted('here'))}"] if bench.chance(0.3) else []
        problem_tables += [
            f"{bench.pick(PARAMETERS)} = {bench.pick((*VALUES, '3', '5', '0.5'))}"
            for _ in range(int(bench.rng.integers(0, 3)))
        ]
    if bench.chance(0.5):
        lines.append(f"agents = {odd(listed(bench.some(AGENTS, 2)))}")
        agent_tables = []
    else:
        agent_tables = ["[[agents]]", f"name = {odd(quoted(bench.pick(AGENTS)))}"]
        agent_tables += [f"called = {odd(quoted('mine'))}"] if bench.chance(0.3) else []
        if bench.chance(0.5):
            agent_tables.append(f"settings = {{{bench.pick(SETTINGS)} = {bench.pick((*VALUES, '0.5', '1', 'true'))}}}")
        if bench.chance(0.4):
            grid = bench.pick(("[0.1, 0.2]", "[1, 1]", "[]", "[[1]]", "[" + "0.1, " * 40 + "]", *VALUES))
            agent_tables.append(f"grid = {{{bench.pick(SETTINGS)} = {grid}, beta = [0.1, 0.3]}}")
    shared = (
        [
            "[settings]",
            *(f"{bench.pick(SETTINGS)} = {bench.pick((*VALUES, '0.5'))}" for _ in range(int(bench.rng.integers(1, 3)))),
        ]
        if bench.chance(0.3)
        else []
    )
    tables = [problem_tables, agent_tables, shared]
    return "\n".join([*lines, *(line for table in tables for line in table)]) + "\n"


@COMMAND.kind("toml", 14)
def experiment_file(bench: Bench) -> Case:
    text = toml(bench)
    how = int(bench.rng.integers(12))
    data = damaged_text(bench, text) if how < 3 else text.encode()
    if how == 3:
        deep = int(10 ** bench.rng.integers(1, 5))
        data = (
            bench.pick(
                (
                    f"a = {'[' * deep}{']' * deep}",
                    f"{'a.' * deep}b = 1",
                    f"{'[a.' * 1}{'b.' * deep}c]",
                    "a = " + "{b = " * deep + "1" + "}" * deep,
                    "episodes = " + "9" * deep,
                    "x = '" + "y" * deep * 10 + "'",
                )
            ).encode()
            + b"\n"
            + data
        )
    (bench.here / "used").mkdir()
    (bench.here / "used" / "other.txt").write_bytes(b"x\n")
    (bench.here / "map.txt").write_bytes(b"SF\nFG\n")
    for name in (*PROBLEMS, "here", "map", "terrain-0", "random-lake-0", "linear-0", "synthetic-0", "robot-map-0"):
        (bench.here / "used" / name).write_bytes(b"in the way\n")
    words = [bench.path(bench.pick(("e.toml", "e.toml", "e", "e.txt", "x y.toml")), data)]
    if bench.chance(0.2):
        words += [
            bench.pick(
                (
                    "--dry-run",
                    "--certify",
                    "--horizon=3",
                    "--episodes=1",
                    "--problem=synthetic",
                    "--agents=lsvi",
                    f"--set={setting(bench)}",
                )
            )
        ]
    if "--dry-run" in words and (bench.quick or bench.chance(0.8)):
        words.remove("--dry-run")
    words += ["--out", "used"] if bench.chance(0.7) else []
    if not bench.quick and bench.chance(0.15):
        return Case(["run", *words, "--seeds", "1", "--episodes", "2", "--out", "new"], written=["new"])
    return Case(["run", *words], written=["."])


# --- flags ------------------------------------------------------------------------------------------------------------
FLAGS = (
    "--problem", "--agents", "--episodes", "--seeds", "--horizon", "--set", "--certify", "--out",
    "--dry-run", "--log", "--engine",
    "--address", "--agent", "--seed", "--step", "--style", "--no-player", "--problems", "--ablation", "--table-only",
    "--host", "--port",
    "--no-browser", "--help", "--version", "-h", "--", "-", "-x", "--foo", "--out=", "--=", "---", "--seeds=",
    "--ep", "--s",
)  # fmt: skip


@COMMAND.kind("flags", 8)
def flags(bench: Bench) -> Case:
    words: list[Any] = [
        bench.pick((*COMMANDS, *COMMANDS, "Run", "", "-", "runn", "help", "\u202erun", "--version", "x" * 5000))
    ]
    for _ in range(int(bench.rng.integers(0, 6))):
        words.append(
            bench.pick(FLAGS)
            if bench.chance(0.6)
            else argument(bench.pick((*TEXTS, *NUMBERS, "missing", "frozen-lake", "local", "ray", "paper")))
        )
    if words[0] in ("reproduce", "compare", "play"):  # what could be accepted would run for long
        words.append(
            bench.pick(
                ("--seeds=0", "--seeds=x", "--seeds=", "--port=x", "--port=0", "--port=65536", "--bad", "--seeds=-1")
            )
        )
    if words[0] == "run":
        (bench.here / "used").mkdir()
        (bench.here / "used" / "other.txt").write_bytes(b"x\n")
        words += ["--out", "used", "--engine=local"]
        words = [word for word in words if word != "--dry-run"]
    return Case([str(word) for word in words])


@COMMAND.kind("play", 0.3)
def play(bench: Bench) -> Case:
    host = bench.pick(
        (
            "127.0.0.1",
            "localhost",
            "0.0.0.0",
            "::1",
            "256.1.1.1",
            "",
            "nohost.invalid",
            "\u2603",
            "-",
            " ",
            "127.0.0.1:80",
            "a" * 300,
        )
    )
    words = ["play", "--no-browser", f"--host={host}"]
    if bench.chance(0.5):
        words.append(
            f"--port={bench.pick((1, 80, 8765, 0, 65535, 65536, 'x', '', 40000 + int(bench.rng.integers(20000))))}"
        )
    return Case(words, serves=True)
