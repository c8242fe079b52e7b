"""Reads a topic as a group with kafka-python, a client of its own protocol
code, prints the values, commits and leaves.

Arguments: bootstrap topic group count
"""

import sys

from kafka import KafkaConsumer

bootstrap, topic, group, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
    consumer_timeout_ms=30000, max_poll_records=5,
)
for record in consumer:
    print(record.value.decode())
    consumer.commit()
    count -= 1
    if count == 0:
        break
consumer.close()
