"""Which codes have a scene in which their remedy runs, and why the others have none.

A new code needs a row in a table of scenes, a test of its own, or a reason here.
"""

from tests.unit.remedies import (
    test_declarations,
    test_functions,
    test_publications,
    test_runs,
    test_settings,
)

IN_TABLES = frozenset(
    {
        *test_declarations.MISTAKES,
        *test_functions.SCENES,
        *test_publications.SCENES,
        *test_runs.SCENES,
        *test_settings.SCENES,
    }
)
# Each in a file of tests/unit/remedies.
BY_A_TEST_OF_ITS_OWN = frozenset(
    f"PRG-{each}"
    for each in (
        *("T013", "T014", "T018", "T019", "T020", "T024"),
        *("C001", "C005", "C006", "C008", "C013", "C014", "C015"),
        *("I005", "I007", "I013", "R003", "B005", "B006", "B007", "F024", "N008", "K002"),
        *("L001", "L005", "L006", "L011", "L012", "X001", "X002", "X003", "X004", "X006", "X007"),
    )
)
WITHOUT = {
    "PRG-F010": "runs of hooks are kept by servers: integration/test_remedies_on_real_servers.py",
    "PRG-L013": "needs a server of another machine: integration/test_doctor.py",
    "PRG-R002": "only an executor that is a process hands results on",
    **dict.fromkeys(
        (f"PRG-H00{each}" for each in range(1, 7)),
        "needs workers, or what they leave: tests/integration/test_doctor_conductor.py",
    ),
    "PRG-C016": "needs two workers: tests/integration/test_worker_start.py",
    "PRG-X005": "builds two servers; tests/integration does",
    **dict.fromkeys(
        (f"PRG-{each}" for each in ("K004", "K005", "K006")),
        "needs Spark: tests/integration/test_spark_remedies.py",
    ),
    **dict.fromkeys((f"PRG-{each}" for each in ("K001", "K003", "K007", "L010")), "needs Spark"),
}
