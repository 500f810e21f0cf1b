"""What the application asks of the world: Protocols with numbered laws."""
