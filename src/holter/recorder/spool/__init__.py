"""Write the records of each thread into memory-mapped files."""
