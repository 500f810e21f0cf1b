"""Contract suites for adapters of lakeFS and Conductor, to be run by the tests of each adapter.

A suite is a module of tests; import everything of it into a test module that has the suite's
fixture. Each test is one law of the port's docstring, by number and name. Fixtures, by suite:

`lakefs_under_test` (the verbs of `lakefs_under_test.LakeFSUnderTest`): branches (with tags and
repositories), merges, commits, objects. `conductor_under_test`
(`conductor_under_test.ConductorUnderTest`): task_queue, hand_backs, task_definitions, workflows,
workflow_shapes. `bench` (`workspace_pipeline.Bench`): workspace_pipeline.
"""
