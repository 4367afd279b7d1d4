"""`everystep evaluate`: the policies of a training, played without exploration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from everystep.cli.shared import a_path, add_folder, add_trust, environments_at_work
from everystep.errors import EverystepError, seed_number, whole_number
from everystep.runtime.progress import announced, note

if TYPE_CHECKING:
    from everystep.training.policy.evaluation_file import Saved

HELP = "play the policies of a training: return and violation with intervals, and a GIF"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--env", metavar="E", help="an id of gymnasium, or module:factory (that of the training)")
    parser.add_argument("--constraint", metavar="C", help="module:function (that of the training)")
    add_trust(parser)
    parser.add_argument("--episodes", default="20", metavar="N", help="number of episodes of each seed (20)")
    parser.add_argument("--seed", metavar="S", help="of the first episode (1000000)")
    parser.add_argument("--gif", type=a_path, metavar="FILE", help="write the first episode of the first seed as a GIF")
    parser.add_argument("--force", action="store_true", help="also replace a GIF that everystep did not write")


def run(options: argparse.Namespace) -> None:
    episodes = whole_number("episodes", options.episodes)
    from everystep.environments.play import trust
    from everystep.experiments.folder.run_folder import TRAINING_REQUEST, is_training
    from everystep.training.policy import evaluation_file as training_evaluation
    from everystep.training.seeds import run as training_seeds

    folder = Path(options.folder)
    seed = None if options.seed is None else seed_number("seed", options.seed)
    if not is_training(folder):
        raise EverystepError(f"'{folder}' holds no training; give a folder written by `everystep train` or es.train.")
    request, signed = None, False
    if (folder / TRAINING_REQUEST).is_file():
        request, signed = training_seeds.read_begun(folder)
    given = {"env": options.env, "constraint": options.constraint}
    recorded = {name: None if value or request is None else request.names[name] for name, value in given.items()}
    trust.check(folder, recorded, given, signed or options.trust)
    env = given["env"] or recorded["env"]
    if env is None:
        raise EverystepError(
            f"'{folder}' does not record how its environment is made; give --env, and --constraint if it had one."
        )
    constraint = given["constraint"] or recorded["constraint"]
    saved = evaluate(folder, env, constraint, episodes, seed, options.gif, options.force)
    print(training_evaluation.text(saved))
    if options.gif:
        print(f"\nWritten to {options.gif}")


def evaluate(
    folder: Path,
    env: str,
    constraint: str | None,
    episodes: int,
    seed: int | None = None,
    gif: str | None = None,
    force: bool = False,
) -> Saved:
    """Evaluate the finished seeds of a training, and save the result in its folder, which is locked meanwhile.

    `env` and `constraint` are names that may be imported (see `trust.check`), but not from inside the folder.
    """
    from everystep import files
    from everystep.environments.play import trust
    from everystep.environments.play.film import Film
    from everystep.experiments.folder.run_folder import TRAINING_REQUEST, WORK
    from everystep.reports.training import results as training_results
    from everystep.training.policy import card as policy_card
    from everystep.training.policy import evaluation_file as training_evaluation
    from everystep.training.policy.evaluation import FIRST_SEED

    whole = folder.parent if (folder.parent / TRAINING_REQUEST).is_file() else folder
    with files.held(folder, folder / WORK / "pid"), trust.nothing_from(whole):
        with announced("reading the training"):
            results = training_results.read(folder)
        request, finished = results.request, [each for each in results.seeds if each.finished]
        if not finished:
            raise EverystepError(f"'{results.folder}' holds no finished training; a policy is saved at its end.")
        if left := results.unfinished:
            note(f"{len(left)} of the seeds are unfinished; {len(finished)} policies are played.")
        film = None if gif is None else Film(files.absolute(Path(gif)), env, force)
        done: list[int] = []
        with announced(lambda: f"playing the policies, {len(done)} of {len(finished)} done"), environments_at_work():
            saved = training_evaluation.play(
                {each.seed: files.absolute(each.folder) / "policy" for each in finished},
                {each.seed: each.episodes for each in finished},
                env,
                constraint,
                episodes,
                FIRST_SEED if seed is None else seed,
                done.append,
                None if film is None else film.env_of,
                request is not None and (env, constraint) == (request.env, request.constraint),
                finished[0].spec if request is None else None,
            )
            if film is not None:
                film.write()
        files.check_place(results.folder / saved.name)  # or the cards would show an evaluation that is not saved
        for each in finished:  # before the file that marks the evaluation as done
            policy_card.add_evaluation(each.folder / "policy", saved, each.seed)
        saved.write(results.folder)
        return saved
