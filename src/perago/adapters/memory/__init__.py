"""In-memory lakeFS and Conductor: small real systems with planned faults."""
