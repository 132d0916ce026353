"""The input of rules: windows of recent rows, complete steps, facts of the job; and the call of a rule."""
