"""What is told of a worker: the story of each attempt, as log lines, metrics and spans."""
