"""What evaluates a rule: its window, its state, and rows that wait for their step."""
