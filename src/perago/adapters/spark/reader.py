"""Reads like pyspark's DataFrameReader; its paths are relative to the input of an attempt."""

from collections.abc import Callable, Sequence
from typing import Any, final


@final
class WorkspaceReader:
    """Options are passed on; paths are turned into URIs at the input commit."""

    def __init__(self, reader: Any, uri: Callable[[str], str]) -> None:  # noqa: ANN401
        self._reader = reader
        self._uri = uri

    def format(self, source: str) -> "WorkspaceReader":
        """The format of `load`."""
        return WorkspaceReader(self._reader.format(source), self._uri)

    def schema(self, schema: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """The expected schema."""
        return WorkspaceReader(self._reader.schema(schema), self._uri)

    def option(self, key: str, value: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """One option of the format."""
        return WorkspaceReader(self._reader.option(key, value), self._uri)

    def options(self, **options: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """Options of the format."""
        return WorkspaceReader(self._reader.options(**options), self._uri)

    def load(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401
        """Read what `format` said."""
        return self._reader.load(self._uris(path), **options)

    def parquet(self, *paths: str, **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read Parquet."""
        return self._reader.parquet(*map(self._uri, paths), **options)

    def orc(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read ORC."""
        return self._reader.orc(self._uris(path), **options)

    def json(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read JSON lines."""
        return self._reader.json(self._uris(path), **options)

    def csv(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read CSV."""
        return self._reader.csv(self._uris(path), **options)

    def text(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read lines."""
        return self._reader.text(self._uris(path), **options)

    def _uris(self, path: str | Sequence[str]) -> str | list[str]:
        return self._uri(path) if isinstance(path, str) else [self._uri(each) for each in path]
