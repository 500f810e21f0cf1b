"""What comes of each fault, under each policy; and of a crash or a lost call at every moment."""

import pytest
from tests.kit_cases import CASES, LEASE_SECONDS, Case, counting_task, outcome_of

from perago.testing import (
    POINTS,
    Fault,
    MemoryServers,
    PeragoEnvironment,
    Repository,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    meanwhile,
    outage,
    unavailable,
    zombie,
)

REMOTE = [name for name, point in POINTS.items() if point.is_remote]
POLICIES = ("settled", "head-parent", "lineage")


@pytest.mark.perago(policy="settled")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_settled(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.settled, await perago_env.story_text()


@pytest.mark.perago(policy="head-parent")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_head_parent(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.head_parent, (
        await perago_env.story_text()
    )


async def _survives(env: PeragoEnvironment, policy: str, fault: Fault) -> None:
    """One task completes with one fault planned, and nothing accepted or foreign is lost."""
    env.use_policy(policy)
    clean, _ = counting_task()
    repository = await env.repository("repo", {"data/in.txt": "in"})
    env.plan(fault)
    run = await env.run(clean, repository)
    await env.assert_completed(run)
    result = await run.result("clean")
    await env.assert_files(
        repository, {"data/in.txt": "in", "data/out.txt": f"run {result['run']}"}
    )
    assert await env.check_invariants(settled=policy == "settled") == []


@pytest.mark.simulation
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_before_any_moment(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, crash(before=point))


@pytest.mark.simulation
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_after_any_moment(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, crash(after=point))


@pytest.mark.simulation
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", REMOTE)
async def test_a_lost_answer_at_any_moment(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, lose_answer(point))


@pytest.mark.simulation
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", REMOTE)
async def test_a_lost_request_at_any_moment(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, lose_request(point))


@pytest.mark.simulation
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", REMOTE)
async def test_a_request_that_arrives_late_at_any_moment(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, arrive_late(point, until="idle"))


async def test_a_late_merge_arrives_after_the_death_of_its_sender(
    perago_env: PeragoEnvironment,
) -> None:
    await _survives(perago_env, "settled", arrive_late("merge", until="published"))
    perago_env.plan(arrive_late("merge", until="idle"), crash(before="merge", nth=2))
    clean, runs = counting_task("again")
    run = await perago_env.run(clean, await perago_env.repository("other"))
    await perago_env.assert_completed(run)
    assert perago_env.attempts[-2].status == "DIED"
    assert runs == [1]
    assert "a late request arrives: branches.merge" in await perago_env.story_text()
    await perago_env.assert_sound()


async def test_another_writer_acts_while_a_call_is_on_its_way(
    perago_env: PeragoEnvironment,
) -> None:
    repository = await perago_env.repository("repo", {"data/in.txt": "in"})

    async def commit_beside() -> None:
        await repository.commit({"data/in.txt": b"theirs"}, "main", message="beside")

    perago_env.plan(meanwhile(commit_beside, after="stage"))
    clean, _ = counting_task()
    run = await perago_env.run(clean, repository)
    assert await run.status() == "FAILED"
    assert await repository.files() == {"data/in.txt": b"theirs"}


@pytest.mark.parametrize("until", ["retried", "published", "accepted", "idle"])
@pytest.mark.parametrize("point", ["download", "function", "stage", "merge", "complete"])
async def test_a_zombie_that_stops_anywhere(
    perago_env: PeragoEnvironment, point: str, until: str
) -> None:
    await _survives(perago_env, "settled", zombie(before=point, until=until))


@pytest.mark.parametrize("point", ["download", "function", "stage", "decide", "merge", "complete"])
async def test_a_lease_that_runs_out_anywhere(perago_env: PeragoEnvironment, point: str) -> None:
    await _survives(perago_env, "settled", expire_lease(before=point))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", ["download", "function", "stage", "decide", "merge", "complete"])
async def test_a_worker_that_is_told_to_stop_anywhere(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    perago_env.use_policy(policy)
    clean, _ = counting_task()
    repository = await perago_env.repository("repo", {"data/in.txt": "in"})
    perago_env.plan(drain(before=point))
    run = await perago_env.run(clean, repository)
    await perago_env.assert_completed(run)
    (row,) = await run.attempts("clean")
    assert row.snapshot.retry_count == 0
    # After the task function the attempt goes on to its end, whatever it was told.
    gone = ["HANDED_BACK"] if point in {"download", "function"} else []
    assert [story.status for story in perago_env.attempts] == [*gone, "COMPLETED"]
    assert await perago_env.check_invariants(settled=policy == "settled") == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", ["head", "fence", "complete"])
async def test_a_server_that_is_unavailable_once(
    perago_env: PeragoEnvironment, policy: str, point: str
) -> None:
    await _survives(perago_env, policy, unavailable(point))


@pytest.mark.parametrize("policy", POLICIES)
async def test_two_zombies_and_a_crash(perago_env: PeragoEnvironment, policy: str) -> None:
    perago_env.plan(zombie(attempt=1), zombie(attempt=2))
    await _survives(perago_env, policy, crash(before="complete", attempt=3))


async def test_a_zombie_lets_its_lease_pass_and_no_more(perago_env: PeragoEnvironment) -> None:
    await _survives(perago_env, "settled", zombie())
    assert LEASE_SECONDS <= perago_env.seconds < LEASE_SECONDS + 2


@pytest.mark.parametrize("policy", ["settled", "lineage"])
async def test_a_foreign_commit_is_never_published_over(
    perago_env: PeragoEnvironment, policy: str
) -> None:
    perago_env.use_policy(policy)
    clean, _ = counting_task()
    repository = await perago_env.repository("repo", {"data/in.txt": "in"})
    perago_env.plan(foreign_commit(after="stage", files={"data/in.txt": b"theirs"}))
    run = await perago_env.run(clean, repository)
    assert await run.status() == "FAILED"
    assert await repository.files() == {"data/in.txt": b"theirs"}
    await perago_env.assert_sound()


@pytest.mark.perago(policy="settled", faults=[crash(before="merge")])
async def test_faults_can_stand_on_the_marker(perago_env: PeragoEnvironment) -> None:
    assert list(perago_env.pending_faults) == [crash(before="merge")]
    clean, _ = counting_task()
    run = await perago_env.run(clean, await perago_env.repository())
    await perago_env.assert_completed(run)
    assert perago_env.attempts[0].status == "DIED"
    assert not perago_env.pending_faults


@pytest.mark.parametrize("lost", [lose_answer("upload"), lose_request("upload")], ids=str)
async def test_an_upload_without_an_answer_is_what_the_transfer_sees(
    perago_env: PeragoEnvironment, lost: Fault
) -> None:
    """Without patience the attempt ends with it, and it says which request it was."""
    perago_env.use_patience(0)
    clean, runs = counting_task()
    await perago_env.run(clean, await _with_fault(perago_env, lost))
    told = [str(story.reason) for story in perago_env.attempts]
    assert "objects.upload: the request left and no answer came" in told[0]
    assert "PRG-L009" in told[0]
    assert (told[1:], runs) == (["None"], [1, 2])


async def _with_fault(env: PeragoEnvironment, fault: Fault) -> Repository:
    env.plan(fault)
    return await env.repository("repo", {"data/in.txt": "in"})


async def test_an_outage_is_one_of_its_service_and_of_every_worker(
    perago_memory: MemoryServers,
) -> None:
    """Conductor takes the row back while lakeFS is away, and the next worker meets it as well."""
    env = PeragoEnvironment(servers=perago_memory)
    clean, runs = counting_task()
    repository = await env.repository("repo", {"data/in.txt": "in"})
    away = outage(before="download", seconds=10.0)
    await env.start(clean, {"workspace": await repository.workspace(), "params": {"clean": {}}})

    first = await env.next_attempt(away, drain(before="objects.download"))
    assert (first.status, first.recorded) == ("HANDED_BACK", "recorded")
    second = await env.next_attempt()
    assert second.status == "NOT SENT", "its lease of some seconds ran out while it waited"
    await env.until_idle()

    assert (env.attempts[-1].accepted, runs) == (True, [1])
    assert env.seconds > 10
    await env.assert_sound()
