"""The agent of a training: settings, encoders, models on stored transitions, plans."""
