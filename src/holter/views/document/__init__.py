"""The description of a job as one document."""
