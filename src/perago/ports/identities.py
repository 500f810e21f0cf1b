"""New names and chance: everything an attempt does not derive from its input."""

from typing import Protocol

from perago.domain.attempt import ExecutionId


class Identities(Protocol):
    """A source of identities.

    Laws (tests/contract/test_identities.py has one test for each, by name):

    I1 executions_differ: two new execution ids are never equal.
    I2 execution_ids_are_branch_safe: letters and digits only.
    I3 fractions_stay_in_range: a fraction is at least 0 and below 1.
    I4 execution_ids_tell_their_time: the millisecond they were made at is read off them, because
       garbage collection knows the age of an empty branch from nothing else.
    """

    def new_execution_id(self) -> ExecutionId:
        """A fresh id for one dispatch of an attempt."""
        ...

    def fraction(self) -> float:
        """A number for jitter."""
        ...
