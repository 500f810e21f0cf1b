"""lakeFS over lakefs-sdk."""
