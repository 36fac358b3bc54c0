"""When the brokers would take a record, on a real one."""

from confluent_kafka.admin import AdminClient
from dblog.kafka.leaders import Leaders
from worker.kafka.test_log import make


def test_topics_are_led_whose_partitions_all_have_their_leader_and_replicas(kafka, own_folder):
    settings = {"bootstrap.servers": kafka.bootstrap}
    make(AdminClient(settings), own_folder.name, 3)

    assert Leaders(settings).are_led({own_folder.name})
    assert not Leaders(settings).are_led({own_folder.name, f"{own_folder.name}-absent"})


def test_nothing_is_led_where_nobody_answers(own_folder):
    assert not Leaders({"bootstrap.servers": "127.0.0.1:9"}).are_led({own_folder.name})
