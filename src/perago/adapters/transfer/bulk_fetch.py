"""Which objects of a list come in which way: many small ones pipelined, large ones in stretches.

What the pipelined way left out goes through the crew, which tries again and raises.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from perago.adapters.transfer.api_route import Place
from perago.adapters.transfer.connections import Connections
from perago.adapters.transfer.crew import Crew, Job
from perago.adapters.transfer.failures import read_failure
from perago.adapters.transfer.pace import Pace
from perago.adapters.transfer.pipelined_fetch import BODY_BYTES_MAX, PipelinedFetch
from perago.adapters.transfer.ranges import SPLIT_BYTES_MIN, RangedFetch
from perago.adapters.transfer.route import Route
from perago.ports.object_transport import Fetched, FetchOrder, Moved

LARGE_STREAMS_ENOUGH = 8


@final
class BulkFetch:
    """Fetches lists; holds nothing of any of them."""

    def __init__(
        self,
        connections: Connections,
        crew: Crew,
        pace: Pace,
        route_for: Callable[[int], Route],
    ) -> None:
        self._connections = connections
        self._crew = crew
        self._pace = pace
        self._route_for = route_for

    def run(self, place: Place, orders: Sequence[FetchOrder], moved: Moved) -> list[Fetched]:
        """Bring all orders, each by its way; the first failure raises."""
        small = [
            position
            for position, order in enumerate(orders)
            if order.entry.size <= BODY_BYTES_MAX
            and not self._route_for(order.entry.size).asks_before
        ]
        if not small:
            found = self._through_crew(place, orders, range(len(orders)), moved)
            return [found[position] for position in range(len(orders))]
        ask = partial(self._route_for(0).part_request, place)
        pipelined = PipelinedFetch(
            self._connections, self._pace, [orders[position] for position in small], ask, moved
        )
        beside = Job(partial(_run, pipelined), 0, _passed_on, cancel=pipelined.stop)
        large = sorted(set(range(len(orders))).difference(small))
        found = self._through_crew(place, orders, large, moved, beside)
        found |= {small[number]: fetched for number, fetched in pipelined.landed.items()}
        left = [position for position in small if position not in found]
        found |= self._through_crew(place, orders, left, moved)
        return [found[position] for position in range(len(orders))]

    def _through_crew(
        self,
        place: Place,
        orders: Sequence[FetchOrder],
        positions: Sequence[int],
        moved: Moved,
        *beside: Job[str],
    ) -> dict[int, Fetched]:
        split = _worth_splitting(orders)
        jobs: list[Job[str]] = list(beside)
        owners = [-1] * len(jobs)
        ranged: list[RangedFetch] = []
        for position in positions:
            order = orders[position]
            route = self._route_for(order.entry.size)
            give_up = partial(read_failure, f"{place.repository}/{place.ref}/{order.entry.path}")
            if order.entry.size >= SPLIT_BYTES_MIN and split:
                ask = partial(route.part_request, place, order)
                fetch = RangedFetch(order, self._connections, ask)
                ranged.append(fetch)
                jobs.extend(
                    Job(partial(fetch.fetch, start), fetch.stretch_size(start), give_up)
                    for start in fetch.starts
                )
                owners.extend([position] * len(fetch.starts))
            else:
                jobs.append(Job(partial(route.fetch, place, order), order.entry.size, give_up))
                owners.append(position)
        try:
            digests = self._crew.run(jobs, moved)
        finally:
            for fetch in ranged:
                fetch.clean_up()
        return {
            owner: Fetched(orders[owner], md5)
            for owner, md5 in zip(owners, digests, strict=True)
            if md5
        }


def _run(pipelined: PipelinedFetch) -> str:
    pipelined.run()
    return ""


_passed_on = partial(read_failure, "small objects")


def _worth_splitting(orders: Sequence[FetchOrder]) -> bool:
    """Whether there are too few large objects to keep the line busy with whole ones."""
    large = sum(order.entry.size >= SPLIT_BYTES_MIN for order in orders)
    return 0 < large < LARGE_STREAMS_ENOUGH
