"""The pages of a job, for the server and for a file."""
