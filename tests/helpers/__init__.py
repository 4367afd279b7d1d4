"""What several files of tests share: oracles, made-up data and the agents they are used with."""
