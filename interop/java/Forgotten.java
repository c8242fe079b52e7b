import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends one record to partition 0, and a dozen more when node 2 leads it,
 * whatever has become of the first; then waits for that one. Prints the offset of
 * each when its answer is there.
 *
 * Arguments: bootstrap topic
 */
public final class Forgotten {
    private static int leader(KafkaProducer<String, String> producer, String topic) {
        return producer.partitionsFor(topic).stream().filter(p -> p.partition() == 0).findFirst().get().leader().id();
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("linger.ms", "0");
        p.put("metadata.max.age.ms", "200");
        p.put("request.timeout.ms", "25000");
        p.put("delivery.timeout.ms", "30000");
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, text, text)) {
            // Metadata is asked of who is connected and owes no answer: of node 2.
            producer.send(new ProducerRecord<>(args[1], 1, null, "to node 2")).get();
            Future<RecordMetadata> first = producer.send(new ProducerRecord<>(args[1], 0, null, "first"));
            long deadline = System.nanoTime() + 30_000_000_000L;
            while (leader(producer, args[1]) != 2) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("node 2 never led");
                }
                Thread.sleep(20);
            }
            for (int i = 1; i <= 12; i++) {
                System.out.println("later " + producer.send(new ProducerRecord<>(args[1], 0, null, "later " + i)).get().offset());
            }
            RecordMetadata m = first.get();
            System.out.println("first " + (m.hasOffset() ? m.offset() : "somewhere"));
        }
    }
}
