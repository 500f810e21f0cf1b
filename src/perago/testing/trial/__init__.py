"""One task on a directory: no server, no publication, everything shown."""
