"""What an executor process is not given: keys, and what belongs to its parent alone."""

import pytest

from perago.app.worker.executor import executor_environment, secrets_in


@pytest.mark.parametrize(
    "name",
    [
        "CONDUCTOR_AUTH_SECRET",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
        "PERAGO_LAKEFS",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
    ],
)
def test_what_opens_something_stays_with_the_parent(name: str) -> None:
    given = {name: "any", "HOME": "/home", "PYSPARK_PYTHON": "python3"}
    assert executor_environment(given) == {"HOME": "/home", "PYSPARK_PYTHON": "python3"}


def test_the_tokens_of_exporters_are_secrets_and_paths_of_key_files_are_none() -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20token-one,x-key=token-two",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hunter2secret",
        "CONDUCTOR_AUTH_SECRET_FILE": "/run/secrets/conductor",
    }
    found = set(secrets_in(environment))
    assert {"token-one", "token-two", "hunter2secret"} <= found
    assert "/run/secrets/conductor" not in found


def test_a_copy_of_a_secret_stays_too() -> None:
    given = {"COPY": "url?key=hunter2secret", "HOME": "/home"}
    assert executor_environment(given, {"hunter2secret", "short"}) == {"HOME": "/home"}
