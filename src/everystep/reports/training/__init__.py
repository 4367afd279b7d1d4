"""Results of trainings: tables, curves, figures, comparison."""
