"""lakeFS, over our own HTTP client."""
