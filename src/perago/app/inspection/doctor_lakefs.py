"""What `perago doctor` asks of lakeFS, in this order: from the address to one publication."""

from collections.abc import AsyncIterator

from perago.app.inspection.doctor import Check, Finding, Status, Subject, ok, remedy_of

ADDRESS = "lakeFS address"


async def address(subject: Subject) -> AsyncIterator[Finding]:
    """Which lakeFS is meant; asks nothing."""
    connection = subject.connections.lakefs
    if connection is None:
        text = "lakeFS is not configured: tasks with a workspace cannot run"
        yield Finding(ADDRESS, Status.WARNING, text, remedy_of("PRG-C010", {}), "PRG-C010")
        return
    subject.open_lakefs(connection)
    yield ok(ADDRESS, connection.url)


LAKEFS_CHECKS = (Check(ADDRESS, address, server="lakefs"),)
