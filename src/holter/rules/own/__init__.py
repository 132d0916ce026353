"""Rules that users define: files, functions and expressions."""
