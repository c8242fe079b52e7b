"""Produces with librdkafka, which pushes metrics as it does by default, until
the standard input ends.

Arguments: bootstrap topic
"""

import sys
import threading

from confluent_kafka import Producer

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "python-telemetry"})
while not ended.wait(0.1):
    producer.produce(sys.argv[2], b"x" * 100)
    producer.poll(0)
producer.flush(10)
