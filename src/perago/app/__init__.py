"""The application: the spine of one attempt, what authors write, and the command line."""
