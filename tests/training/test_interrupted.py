"""Ctrl-C during training: what was learnt is returned, and no state is half updated."""

import os
import signal
import subprocess
import sys
import textwrap

import gymnasium
import jax
import numpy as np
import pytest
from environments_for_tests.rings import CallingRing

import everystep as es
from everystep.training.agent import stored_agent

HORIZON = 4


@pytest.fixture
def python_handles_signals():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(number):
    def stop(step):
        if step == number:
            raise KeyboardInterrupt

    return stop


def learner(env, **options):
    return es.Learner(env, "lsvi-ae", horizon=HORIZON, seed=0, **options)


def trained_on(steps):
    """What an uninterrupted learner knows after so many whole and broken episodes."""
    made = learner(CallingRing())
    for length in steps:
        made.length = length
        made.play(1)
    return made.agent.state


def same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.quick
def test_the_finished_steps_of_an_interrupted_episode_are_kept():
    env = CallingRing(interrupt_at(11))  # the third step of the third episode
    made = learner(env)
    result = made.train(100)
    assert list(result.columns["length"]) == [4, 4, 2]
    assert "stopped by Ctrl-C after 2 of 100 episodes; an unfinished one of 2 steps is kept" in str(result)
    same(made.agent.state, trained_on([4, 4, 2]))
    assert list(made.train(1).columns["length"]) == [4, 4, 2, 4]


def test_an_interrupt_in_the_constraint_function_is_not_taken_for_an_error_of_it():
    calls = iter(range(100))
    stop = interrupt_at(8)

    def constraint(obs, action, obs_next, info):
        stop(next(calls))
        return -1.0

    result = learner(CallingRing(), constraint=constraint).train(5)
    assert list(result.columns["length"]) == [4, 4]
    assert "stopped by Ctrl-C after 2 of 5 episodes" in result.remarks


def test_an_interrupted_plan_leaves_the_last_one_in_force(monkeypatch):
    made, plans, original = learner(CallingRing()), iter(range(100)), stored_agent._plan

    def plan(*given):
        if next(plans) == 3:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(stored_agent, "_plan", plan)
    result = made.train(10)
    assert list(result.columns["length"]) == [4, 4, 4]
    assert result.plans == result.columns["planned"].sum() == 3
    assert "stopped by Ctrl-C after 3 of 10 episodes" in result.remarks


def test_an_interrupt_before_the_first_step_is_raised():
    with pytest.raises(KeyboardInterrupt):
        learner(CallingRing(interrupt_at(1))).train(3)


def test_a_second_interrupt_is_raised(monkeypatch):
    made = learner(CallingRing(interrupt_at(6)))
    monkeypatch.setattr(made, "result", lambda: interrupt_at(0)(0))
    with pytest.raises(KeyboardInterrupt):
        made.train(3)


def test_play_learns_what_was_played_and_raises_the_interrupt():
    made = learner(CallingRing(interrupt_at(7)))
    with pytest.raises(KeyboardInterrupt):
        made.play(3)
    assert list(made.result().columns["length"]) == [4, 2]


def test_copies_keep_every_finished_step():
    envs = gymnasium.vector.SyncVectorEnv([CallingRing, lambda: CallingRing(interrupt_at(7))])
    result = es.train(envs, "lsvi-ae", horizon=HORIZON, episodes=20)
    assert list(result.columns["length"]) == [4, 4, 2, 2]
    assert "after 2 of 20 episodes; 2 unfinished ones of 2, 2 steps are kept" in str(result)


def test_a_signal_while_learning_waits_until_the_episode_is_learnt(monkeypatch, python_handles_signals):
    """The signal arrives when the old state is given away and the new one is not assigned yet."""
    made, original = learner(CallingRing()), stored_agent._learn

    def learn(*given):
        learnt = original(*given)
        if made.number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return learnt

    monkeypatch.setattr(stored_agent, "_learn", learn)
    result = made.train(10)
    assert "stopped by Ctrl-C after 3 of 10 episodes" in result.remarks
    assert len(result.columns["return"]) == 3
    same(made.agent.state, trained_on([4, 4, 4]))


def test_a_signal_to_the_process_ends_training_with_its_result():
    program = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
        import everystep as es
        from environments_for_tests.rings import CallingRing
        def tell(step):
            if step == 9:
                print("two episodes done", flush=True)
        print(es.Learner(CallingRing(tell), "lsvi-ae", horizon={HORIZON}).train(10**6))
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "two episodes done\n"
        child.send_signal(signal.SIGINT)
        text, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0
    assert "of 1000000 episodes" in text
    assert "stopped by Ctrl-C after" in text
