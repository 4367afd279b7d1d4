"""Reports on finished runs: certificates, the comparison of agents, the paper's experiment, and the theory."""
