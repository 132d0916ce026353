"""The pages of a job, which the dashboard serves and the report file contains."""
