"""Records Ray: workers of Ray Train, the wait for batches of Ray Data, and workers of a running cluster."""
