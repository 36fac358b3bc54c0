from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError

QUEUE_FULL: int

class BatchProducer:
    def __init__(self, settings: Mapping[str, str], headers: Sequence[tuple[str, bytes | None]] = ()) -> None: ...
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
        with_headers: bool,
        tag: int,
    ) -> tuple[int, int]: ...
    def produce_one(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], tag: int
    ) -> int: ...
    def serve(self, timeout_ms: int) -> tuple[dict[int, int], list[tuple[int, str, KafkaError]], list[KafkaError]]: ...
    def flush(self, timeout_ms: int) -> None: ...
