"""One file for each kind of task in a workflow: when it is done, and what it schedules."""
