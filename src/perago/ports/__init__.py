"""What the application asks of outside systems: Protocols with numbered laws."""
