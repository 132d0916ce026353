"""Names of other libraries, on what holter has."""
