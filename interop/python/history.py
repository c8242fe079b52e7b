"""Clients of librdkafka that write down what they do and see, in the form of
internal/check, as java/History.java does: until standard input ends, whatever
errors there are.

Arguments: bootstrap topic partitions client observer file

SIGUSR1 has it say where its threads are, and what its member last said of its
group.
"""

import collections
import faulthandler
import json
import logging
import signal
import sys
import threading
import time
import zlib

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BOOTSTRAP, TOPIC, PARTITIONS, CLIENT, OBSERVER, FILE = sys.argv[1:7]
PARTITIONS = int(PARTITIONS)
COMMON = {"bootstrap.servers": BOOTSTRAP, "reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 5000, "log_level": 2}

lock = threading.Lock()
ending = threading.Event()
out = open(FILE, "w")


def write(op, role, begin, partition, **rest):
    """Its end is now, so that ends come in order."""
    with lock:
        event = {"op": op, "client": CLIENT + role, "observer": OBSERVER, "begin": begin, "end": time.monotonic_ns(),
                 "topic": TOPIC, "partition": partition, **rest}
        out.write(json.dumps(event, separators=(",", ":")) + "\n")


def produce():
    producer = Producer({**COMMON, "enable.idempotence": True, "acks": "all", "linger.ms": 5})
    seq = 0
    while not ending.is_set():
        seq += 1
        send(producer, seq)
        producer.poll(0.005)
    producer.flush(60)
    producer.purge()
    producer.flush(10)


def send(producer, seq):
    partition, name = seq % PARTITIONS, f"{CLIENT}-{seq}"
    value = (name + "|" + "x" * (seq % 100)).encode()
    sent = {"producer": CLIENT, "idempotent": True, "acks": -1, "seq": seq, "id": name, "sum": zlib.crc32(value)}
    begin = time.monotonic_ns()

    def answered(error, message):
        if error is None:
            write("produce", "", begin, partition, **sent, offset=-1 if message.offset() is None else message.offset())
        else:
            write("produce", "", begin, partition, **sent, out="maybe")

    try:
        producer.produce(TOPIC, value, partition=partition, on_delivery=answered)
    except (BufferError, KafkaException) as e:
        answered(e, None)


said = collections.deque(maxlen=80)  # of the member's group


class Kept(logging.Handler):
    def emit(self, record):
        if not record.getMessage().startswith(("DUMP", "ASSIGNDONE")):  # of each commit
            said.append(f"{time.strftime('%H:%M:%S')} {record.getMessage()}")


def tell(signum, frame):
    faulthandler.dump_traceback(all_threads=True)
    print("\n".join(said), file=sys.stderr, flush=True)


signal.signal(signal.SIGUSR1, tell)


def consumer(role, **more):
    return Consumer({**COMMON, "client.id": CLIENT + role, "group.id": CLIENT + "-group", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 10000, **more})


def took(role, batch):
    """Writes down what was read. When it was asked for is not known."""
    runs = {}
    for m in batch:
        if m.error() is None:
            runs.setdefault(m.partition(), []).append(m)
    for partition, of in runs.items():
        records = [[m.offset(), m.value().split(b"|")[0].decode(), zlib.crc32(m.value()), -1 if m.leader_epoch() is None else m.leader_epoch()] for m in of]
        # A batch may hold records of before and after a rebalance.
        while records:
            n = next((i for i in range(1, len(records)) if records[i][0] <= records[i - 1][0]), len(records))
            write("read", role, 0, partition, records=records[:n])
            records = records[n:]
    return {partition: of[-1].offset() + 1 for partition, of in runs.items()}


def member():
    log = logging.Logger("member")
    log.addHandler(Kept())
    c = consumer("-member", debug="cgrp", log_level=7, logger=log)
    c.subscribe([TOPIC])
    while not ending.is_set():
        ends = took("-member", c.consume(500, 0.1))
        if ends:
            commit(c, ends)
    c.close()


def commit(c, ends):
    begin, done = time.monotonic_ns(), set()
    try:
        answers = c.commit(offsets=[TopicPartition(TOPIC, p, o) for p, o in ends.items()], asynchronous=False)
        done = {tp.partition for tp in answers if tp.error is None}
    except KafkaException as e:
        print("commit:", e, file=sys.stderr)
    for partition, offset in ends.items():
        write("commit", "-member", begin, partition, group=CLIENT + "-group", offset=offset, out="ok" if partition in done else "maybe")


def reader():
    c = consumer("-reader")
    c.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    while not ending.is_set():
        took("-reader", c.consume(500, 0.05))
        try:
            ask(c)
        except KafkaException as e:
            print("reader:", e, file=sys.stderr)
    c.close()


def ask(c):
    """Asks for the marks of partitions and the offsets of the group."""
    for p in range(PARTITIONS):
        begin = time.monotonic_ns()
        marks = c.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=5, cached=False)
        if marks is not None:
            write("read", "-reader", begin, p, start=marks[0], high=marks[1])
    begin = time.monotonic_ns()
    for tp in c.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)], timeout=5):
        if tp.error is None:
            write("fetch", "-reader", begin, tp.partition, group=CLIENT + "-group", offset=max(tp.offset, -1))


threads = [threading.Thread(target=f) for f in (produce, member, reader)]
for t in threads:
    t.start()
sys.stdin.read()
ending.set()
for t in threads:
    t.join()
out.close()
