"""Cost models: the estimate of each constraint g and its width."""
