"""Looking at what happened: nothing here changes anything on a server."""
