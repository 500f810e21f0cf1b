"""Progress and logs."""
