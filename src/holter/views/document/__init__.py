"""The description of a job as one document, and the documents about parts of a job."""
