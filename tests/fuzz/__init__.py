"""The command and the Python API, tried as a hostile user would.

    python tests/fuzz --count 500 --jobs 2             500 inputs of the command, then the first failures
    python tests/fuzz --seed 7 --only 1234 --keep DIR  one input again, alone, with everything it said

An input is a number: with the seed of the session it decides what is drawn (`cases.draw`), so each failure can be
repeated by itself. `harness` runs an input in a process of its own and says what was wrong with it; `cases` has what
inputs are made of; `problem_files`, `experiments`, `places`, `folders`, `surroundings` and `python_api`
make them. What others made, and a user received, is a suite of its own, with less memory: folders of trainings and of
policies whose checksums are right (`trainings`, `bombs`), and environments (`misbehaving`).
"""
