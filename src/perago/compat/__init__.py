"""What only callers of release 0.6.1 need: attempts with the caller's own transfers.

It goes in version 1.0. New code runs a worker (`perago start`), or `TaskEnvironment` in a test.
"""
