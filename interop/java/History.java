import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients that write down what they do and see, in the form of internal/check: an idempotent producer, a member of a group that commits, and a
 * reader without a group that asks for marks and for the group's offsets. They work until standard input ends and survive any error.
 *
 * Arguments: bootstrap topic partitions client observer file
 */
public final class History {
    private static String bootstrap;
    private static String topic;
    private static int partitions;
    private static String client;
    private static String observer;
    private static BufferedWriter out;
    private static volatile boolean ending;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        partitions = Integer.parseInt(args[2]);
        client = args[3];
        observer = args[4];
        out = Files.newBufferedWriter(Path.of(args[5]));
        List<Thread> threads = List.of(new Thread(History::produce), new Thread(History::member), new Thread(History::reader));
        threads.forEach(Thread::start);
        while (System.in.read() >= 0) {
            // whatever it is
        }
        ending = true;
        for (Thread t : threads) {
            t.join();
        }
        out.close();
        System.exit(0);
    }

    /** Writes an event down; its end is now, so that ends come in order. */
    private static synchronized void write(String op, String role, long begin, int partition, String rest) {
        try {
            out.write("{\"op\":\"" + op + "\",\"client\":\"" + client + role + "\",\"observer\":\"" + observer + "\",\"begin\":" + begin + ",\"end\":"
                + System.nanoTime() + ",\"topic\":\"" + topic + "\",\"partition\":" + partition + rest + "}\n");
        } catch (java.io.IOException e) {
            System.err.println(e);
            System.exit(1); // without a history there is nothing to do
        }
    }

    private static long sum(byte[] value) {
        CRC32 c = new CRC32();
        c.update(value);
        return c.getValue();
    }

    private static void produce() {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("client.id", client);
        p.put("acks", "all");
        p.put("enable.idempotence", "true");
        p.put("metadata.max.age.ms", "5000");
        p.put("reconnect.backoff.max.ms", "200");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, bytes, bytes)) {
            for (long seq = 1; !ending; seq++) {
                send(producer, seq);
                Thread.sleep(5);
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } // closing waits for every answer
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, long seq) {
        int partition = (int) (seq % partitions);
        String id = client + "-" + seq;
        byte[] value = (id + "|" + "x".repeat((int) (seq % 100))).getBytes(StandardCharsets.UTF_8);
        String sent = ",\"producer\":\"" + client + "\",\"idempotent\":true,\"acks\":-1,\"seq\":" + seq + ",\"id\":\"" + id + "\",\"sum\":" + sum(value);
        long begin = System.nanoTime();
        try {
            producer.send(new ProducerRecord<>(topic, partition, null, value), (m, e) ->
                write("produce", "", begin, partition, sent + (e == null ? ",\"offset\":" + m.offset() : ",\"out\":\"maybe\"")));
        } catch (RuntimeException e) {
            write("produce", "", begin, partition, sent + ",\"out\":\"maybe\"");
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String role) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("client.id", client + role);
        p.put("group.id", client + "-group");
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("default.api.timeout.ms", "10000");
        p.put("reconnect.backoff.max.ms", "200");
        p.put("session.timeout.ms", "10000");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(p, bytes, bytes);
    }

    private static void member() {
        KafkaConsumer<byte[], byte[]> c = consumer("-member");
        c.subscribe(List.of(topic));
        while (!ending) {
            try {
                ConsumerRecords<byte[], byte[]> records = c.poll(Duration.ofMillis(100));
                Map<TopicPartition, OffsetAndMetadata> next = took("-member", records);
                if (!next.isEmpty()) {
                    commit(c, next);
                }
            } catch (RuntimeException e) {
                System.err.println("member: " + e);
            }
        }
        c.close();
    }

    /** Writes down what was read. When it was asked for is not known: at the earliest when this program began. */
    private static Map<TopicPartition, OffsetAndMetadata> took(String role, ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (TopicPartition tp : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> of = records.records(tp);
            next.put(tp, new OffsetAndMetadata(of.get(of.size() - 1).offset() + 1));
            write("read", role, 0, tp.partition(), of.stream().map(History::record).collect(Collectors.joining(",", ",\"records\":[", "]")));
        }
        return next;
    }

    private static String record(ConsumerRecord<byte[], byte[]> r) {
        String value = new String(r.value(), StandardCharsets.UTF_8);
        return "[" + r.offset() + ",\"" + value.substring(0, Math.max(0, value.indexOf('|'))) + "\"," + sum(r.value()) + "," + r.leaderEpoch().orElse(-1) + "]";
    }

    private static void commit(KafkaConsumer<byte[], byte[]> c, Map<TopicPartition, OffsetAndMetadata> next) {
        long begin = System.nanoTime();
        String out = ",\"out\":\"maybe\"";
        try {
            c.commitSync(next, Duration.ofSeconds(5));
            out = "";
        } catch (RuntimeException e) {
            System.err.println("commit: " + e);
        }
        for (Map.Entry<TopicPartition, OffsetAndMetadata> o : next.entrySet()) {
            write("commit", "-member", begin, o.getKey().partition(), ",\"group\":\"" + client + "-group\",\"offset\":" + o.getValue().offset() + out);
        }
    }

    private static void reader() {
        KafkaConsumer<byte[], byte[]> c = consumer("-reader");
        Set<TopicPartition> all = IntStream.range(0, partitions).mapToObj(i -> new TopicPartition(topic, i)).collect(Collectors.toSet());
        c.assign(all);
        c.seekToBeginning(all);
        while (!ending) {
            try {
                took("-reader", c.poll(Duration.ofMillis(50)));
                ask(c, all);
            } catch (RuntimeException e) {
                System.err.println("reader: " + e);
            }
        }
        c.close();
    }

    /** When the group's offsets were asked for, while that has no answer: 0 else. */
    private static long offsetsAsked;

    /**
     * Asks for the marks of partitions and the offsets of the group. Where a call for offsets gave up, the next one may return the answer to its
     * request, which the client keeps: then they were asked for by the first.
     */
    private static void ask(KafkaConsumer<byte[], byte[]> c, Set<TopicPartition> all) {
        long begin = System.nanoTime();
        c.endOffsets(all).forEach((tp, offset) -> write("read", "-reader", begin, tp.partition(), ",\"high\":" + offset));
        if (offsetsAsked == 0) {
            offsetsAsked = System.nanoTime();
        }
        c.committed(all).forEach((tp, o) ->
            write("fetch", "-reader", offsetsAsked, tp.partition(), ",\"group\":\"" + client + "-group\",\"offset\":" + (o == null ? -1 : o.offset())));
        offsetsAsked = 0;
    }
}
