"""Other tools' files, read into the tables of a job."""
