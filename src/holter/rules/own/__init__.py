"""Rules that users define: in files, as functions and as expressions."""
