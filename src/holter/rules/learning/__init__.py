"""Rules about silent errors: trainings that run without an error message and do not learn correctly."""
