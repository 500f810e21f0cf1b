"""Contract suites for adapters of lakeFS, to be run by whoever writes one.

A suite is a module of tests; import everything of it into a test module that has a fixture
`lakefs_world`, an object with the verbs of `lakefs_world.LakeFSWorld`. Each test is one law of the
port's docstring, by number and name.
"""
