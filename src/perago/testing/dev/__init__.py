"""`perago dev`: a workflow on the embedded environment, and a page on loopback that shows it."""
