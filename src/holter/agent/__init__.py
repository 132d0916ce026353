"""Records a training from outside: starts the command, samples, drains the spool, detects deaths."""
