"""Contract suites for adapters of lakeFS and Conductor, to be run by whoever writes one.

A suite is a module of tests; import everything of it into a test module that has the suite's
fixture. Each test is one law of the port's docstring, by number and name. Fixtures, by suite:

`lakefs_world` (the verbs of `lakefs_world.LakeFSWorld`): branches, merges, commits, tags, objects,
repositories. `conductor_world` (`conductor_world.ConductorWorld`): task_queue, task_queue_repeats,
task_definitions, workflows, workflow_shapes, workflow_steps. `bench` (`workspace_bench.Bench`):
workspace_pipeline.
"""
