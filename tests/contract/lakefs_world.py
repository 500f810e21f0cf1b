"""What a lakeFS contract test may touch; it is public in the testing kit."""

from perago.testing.contract.lakefs_world import MAIN, WALK_PAGE, LakeFSWorld

__all__ = ["MAIN", "WALK_PAGE", "LakeFSWorld"]
