import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of consumer groups, as many as its standard input asks for:
 *
 * start GROUP NAME PROTOCOL   PROTOCOL is consumer, or the assignor of a classic member
 * stop GROUP NAME             leaves the group
 * drop GROUP NAME             goes without leaving
 * pause GROUP NAME MS         processes one record for so long
 *
 * A record is processed by being told of, before its offset is committed:
 *
 * r GROUP NAME PARTITION FIRST LAST   these offsets, whose values hold their numbers
 * c GROUP NAME PARTITION OFFSET       this commit was acknowledged; members named -auto do not tell
 * gone GROUP NAME                     after stop and drop
 * e TEXT                              what must not happen
 *
 * Arguments: bootstrap topic
 */
public final class Members {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split(" ");
            String key = w[1] + " " + w[2];
            switch (w[0]) {
                case "start" -> {
                    Member m = new Member(args[0], args[1], w[1], w[2], w[3]);
                    members.put(key, m);
                    m.start();
                }
                case "stop" -> members.get(key).end(false);
                case "drop" -> members.get(key).end(true);
                case "pause" -> members.get(key).pauseMs = Long.parseLong(w[3]);
                default -> say("e unknown command: " + line);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Member extends Thread {
        private final String topic;
        private final String key;
        private final boolean auto;
        private final Properties p = new Properties();
        volatile long pauseMs;
        private volatile boolean ending;
        private volatile boolean dropping;

        Member(String bootstrap, String topic, String group, String name, String protocol) {
            this.topic = topic;
            key = group + " " + name;
            auto = name.endsWith("-auto");
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", group);
            p.put("client.id", name);
            p.put("auto.offset.reset", "earliest");
            p.put("max.poll.interval.ms", "4000");
            p.put("max.poll.records", "200");
            p.put("enable.auto.commit", Boolean.toString(auto));
            p.put("auto.commit.interval.ms", "200");
            p.put("metadata.max.age.ms", "5000");
            p.put("group.protocol", protocol.equals("consumer") ? "consumer" : "classic");
            if (!protocol.equals("consumer")) {
                p.put("partition.assignment.strategy", ASSIGNORS.get(protocol));
                p.put("session.timeout.ms", "6000");
                p.put("heartbeat.interval.ms", "500");
            }
        }

        void end(boolean drop) {
            dropping = drop;
            ending = true;
        }

        @Override
        public void run() {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, bytes, bytes);
            try {
                c.subscribe(List.of(topic));
                while (!ending) {
                    ConsumerRecords<byte[], byte[]> records = c.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        process(records);
                        commit(c, records);
                    }
                }
            } catch (RuntimeException | InterruptedException e) {
                say("e " + key + ": " + e);
            }
            CloseOptions how = CloseOptions.timeout(Duration.ofSeconds(5));
            if (dropping) {
                how = CloseOptions.timeout(Duration.ZERO).withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
            }
            try {
                c.close(how);
            } catch (RuntimeException e) {
                say("e " + key + ": close: " + e);
            }
            say("gone " + key);
        }

        private void process(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);
                pauseMs = 0;
            }
            for (TopicPartition tp : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> of = records.records(tp);
                for (ConsumerRecord<byte[], byte[]> r : of) {
                    long number = ByteBuffer.wrap(r.value()).getLong();
                    if (number != r.offset()) {
                        say("e " + key + ": " + tp + " offset " + r.offset() + " holds number " + number);
                    }
                }
                say("r " + key + " " + tp.partition() + " " + of.get(0).offset() + " " + of.get(of.size() - 1).offset());
            }
        }

        private void commit(KafkaConsumer<byte[], byte[]> c, ConsumerRecords<byte[], byte[]> records) {
            if (auto) {
                return;
            }
            Map<TopicPartition, OffsetAndMetadata> next = records.nextOffsets();
            try {
                c.commitSync(next, Duration.ofSeconds(5));
                next.forEach((tp, o) -> say("c " + key + " " + tp.partition() + " " + o.offset()));
            } catch (CommitFailedException | RebalanceInProgressException | TimeoutException e) {
                // The group went on without this member: others, or it itself, take the records again.
            }
        }
    }
}
