"""What `holter run` does: read options, plan the run, start the command, judge the job at its end."""
