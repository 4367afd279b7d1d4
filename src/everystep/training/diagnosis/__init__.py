"""Problems of a training: findings, checks of a constraint, the fit of the cost model."""
