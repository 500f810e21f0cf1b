"""The local workspace pipeline: directories, change detection, cache, staging."""
