"""What a task author writes: the decorator, the public models, guardrails, schemas, results."""
