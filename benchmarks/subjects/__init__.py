"""Those who are measured, each a program of its own that prints one line of JSON for each step."""
