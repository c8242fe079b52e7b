"""Members of consumer groups by librdkafka, with the commands and the answers
of java/Members.java but for drop.

Arguments: bootstrap topic
"""

import struct
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

# Of a commit, what says that the group went on without this member.
LATE = {
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS, KafkaError._NO_OFFSET,
    KafkaError.FENCED_MEMBER_EPOCH, KafkaError.STALE_MEMBER_EPOCH, KafkaError._ASSIGNMENT_LOST, KafkaError._STATE,
    KafkaError._TIMED_OUT, KafkaError._WAIT_COORD, KafkaError.REQUEST_TIMED_OUT, KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TRANSPORT,
}

lock = threading.Lock()


def say(line):
    with lock:
        print(line, flush=True)


class Member(threading.Thread):
    def __init__(self, bootstrap, topic, group, name, protocol):
        super().__init__(daemon=True)
        self.topic, self.key = topic, f"{group} {name}"
        self.auto = name.endswith("-auto")
        self.pause_ms, self.ending = 0, False
        self.conf = {
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": name, "auto.offset.reset": "earliest",
            "max.poll.interval.ms": 6000, "enable.auto.commit": self.auto, "auto.commit.interval.ms": 200,
            "enable.auto.offset.store": False, "topic.metadata.refresh.interval.ms": 5000,
            "reconnect.backoff.max.ms": 500, "log_level": 2,
        }
        if protocol == "consumer":
            self.conf["group.protocol"] = "consumer"
        else:
            self.conf.update({"partition.assignment.strategy": protocol, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500})

    def run(self):
        try:
            consumer = Consumer(self.conf)
            consumer.subscribe([self.topic])
            while not self.ending:
                self.step(consumer)
            consumer.close()
        except Exception as e:  # whatever it is, the test must hear of it
            say(f"e {self.key}: {e!r}")
        say(f"gone {self.key}")

    def step(self, consumer):
        batch = consumer.consume(200, 0.1)
        good = [m for m in batch if m.error() is None]
        for m in batch:
            if m.error() is not None and m.error().code() not in (KafkaError._MAX_POLL_EXCEEDED, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                say(f"e {self.key}: {m.error()}")
        if not good:
            return
        if self.pause_ms:
            time.sleep(self.pause_ms / 1000)
            self.pause_ms = 0
        self.process(good)
        try:
            for m in good:
                consumer.store_offsets(message=m)
            if not self.auto:
                for tp in consumer.commit(asynchronous=False):
                    if tp.error is None:
                        say(f"c {self.key} {tp.partition} {tp.offset}")
        except KafkaException as e:
            if e.args[0].code() not in LATE:
                raise

    def process(self, batch):
        runs = {}
        for m in batch:
            number = struct.unpack(">q", m.value()[:8])[0]
            if number != m.offset():
                say(f"e {self.key}: partition {m.partition()} offset {m.offset()} holds number {number}")
            of = runs.setdefault(m.partition(), [])
            if of and of[-1][1] + 1 == m.offset():
                of[-1][1] = m.offset()
            else:
                of.append([m.offset(), m.offset()])
        for partition, of in runs.items():
            for first, last in of:
                say(f"r {self.key} {partition} {first} {last}")


def main():
    members = {}
    for line in sys.stdin:
        w = line.split()
        key = (w[1], w[2])
        if w[0] == "start":
            members[key] = Member(sys.argv[1], sys.argv[2], *w[1:4])
            members[key].start()
        elif w[0] == "stop":
            members[key].ending = True
        elif w[0] == "pause":
            members[key].pause_ms = int(w[3])
        else:
            say(f"e unknown command: {line}")


main()
