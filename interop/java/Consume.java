import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads every partition of a topic from the beginning to the end that it had
 * at the start, by assign(), and writes key, delimiter, value and a newline
 * into one file per partition.
 *
 * Arguments: bootstrap topic delimiter directory
 */
public final class Consume {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("enable.auto.commit", "false");
        p.put("fetch.max.bytes", "20000000");
        p.put("max.partition.fetch.bytes", "1048576");
        byte[] delimiter = args[2].getBytes(StandardCharsets.UTF_8);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, bytes, bytes)) {
            List<TopicPartition> all = new ArrayList<>();
            Map<TopicPartition, OutputStream> out = new HashMap<>();
            for (PartitionInfo i : c.partitionsFor(args[1])) {
                TopicPartition tp = new TopicPartition(args[1], i.partition());
                all.add(tp);
                Path file = Path.of(args[3], Integer.toString(i.partition()));
                out.put(tp, new BufferedOutputStream(Files.newOutputStream(file), 1 << 16));
            }
            c.assign(all);
            c.seekToBeginning(all);
            Map<TopicPartition, Long> end = c.endOffsets(all);
            long deadline = System.nanoTime() + Duration.ofMinutes(3).toNanos();
            while (!end.entrySet().stream().allMatch(e -> c.position(e.getKey()) >= e.getValue())) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end was not reached");
                }
                for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofSeconds(1))) {
                    OutputStream o = out.get(new TopicPartition(r.topic(), r.partition()));
                    if (r.key() != null) {
                        o.write(r.key());
                        o.write(delimiter);
                    }
                    if (r.value() != null) {
                        o.write(r.value());
                    }
                    o.write('\n');
                }
            }
            for (OutputStream o : out.values()) {
                o.close();
            }
        }
    }
}
