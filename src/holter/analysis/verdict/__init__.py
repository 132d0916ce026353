"""The verdict: facts, suspects, evidence and advice."""
