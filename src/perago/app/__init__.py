"""The application: the steps of one attempt, what authors write, and the command line."""
