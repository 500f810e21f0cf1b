"""Files of Spark jobs count when a manifest names them, and only then."""

from perago.domain.key_ranges import JobFiles, manifest_job, parse_manifest, writing_job

JOB = "0f0e7b2c-9a1d-4b7e-8f00-aabbccddeeff"
OTHER = "1f0e7b2c-9a1d-4b7e-8f00-aabbccddeeff"


def _file(job: str, attempt: int, part: int = 0) -> str:
    return f"lake/daily/part-{part:05}-{job}-try{attempt}.c000.snappy.parquet"


def test_names_tell_the_job() -> None:
    assert writing_job(_file(JOB, 7)) == JOB
    assert writing_job("lake/daily/part-00000-of-somebody.parquet") is None
    assert writing_job(f"lake/{_file(JOB, 1).split('/')[-1]}/other.parquet") is None
    assert manifest_job(f"lake/daily/_perago_committed-{JOB}") == JOB
    assert manifest_job("lake/daily/part-0") is None


def test_a_loser_and_a_job_without_a_manifest_do_not_count() -> None:
    jobs = JobFiles()
    won, lost, never = _file(JOB, 1), _file(JOB, 2), _file(OTHER, 3)
    manifest = f"lake/daily/_perago_committed-{JOB}"
    for path in (won, lost, never, manifest):
        assert jobs.take(path)
    assert not jobs.take("lake/other.csv")
    content = f"{won}\n".encode()
    assert sorted(jobs.losers({JOB: parse_manifest(content)})) == sorted([lost, never])
    assert jobs.manifests == {JOB: manifest}


def test_an_empty_manifest_names_nothing() -> None:
    assert parse_manifest(b"") == frozenset()
