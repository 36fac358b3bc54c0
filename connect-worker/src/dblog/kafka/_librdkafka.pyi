from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError

QUEUE_FULL: int

class RecordHeaders:
    def __init__(self, headers: Sequence[tuple[str, bytes | None]]) -> None: ...

class BatchProducer:
    def __init__(self, settings: Mapping[str, str]) -> None: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    def produce(
        self,
        topic: str,
        partition: int,
        keys: list[bytes | None],
        values: list[bytes | None],
        start: int,
        stop: int,
        headers: RecordHeaders | None,
        tag: int,
    ) -> tuple[int, int]: ...
    def serve(self, timeout_ms: int) -> tuple[dict[int, int], list[tuple[str, KafkaError]], list[KafkaError]]: ...
    def flush(self, timeout_ms: int) -> None: ...
