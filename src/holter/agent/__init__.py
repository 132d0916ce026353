"""Record beside the training: start the command, sample, drain the spool, notice deaths and hangs."""
