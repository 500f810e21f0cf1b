"""What a lakeFS contract test may touch; it is public in the testing kit."""

from perago.testing.contract.lakefs_under_test import MAIN, WALK_PAGE, LakeFSUnderTest

__all__ = ["MAIN", "WALK_PAGE", "LakeFSUnderTest"]
