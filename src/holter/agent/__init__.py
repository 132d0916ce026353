"""Record beside the training: start the command, sample the machine, drain the spool, notice deaths and hangs."""
