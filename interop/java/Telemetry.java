import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer and a consumer that work, and push metrics as they do by default,
 * until the standard input ends. Writes the instance ids of both, as
 * "producer ID" and "consumer ID".
 *
 * Arguments: bootstrap topic
 */
public final class Telemetry {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", ByteArraySerializer.class.getName());
        p.put("enable.idempotence", "false");
        p.put("client.id", "java-telemetry");
        p.put("group.id", "telemetry");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p);
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.assign(List.of(new TopicPartition(args[1], 0)));
            consumer.poll(Duration.ofMillis(100));
            System.out.println("producer " + producer.clientInstanceId(Duration.ofSeconds(30)));
            System.out.println("consumer " + consumer.clientInstanceId(Duration.ofSeconds(30)));
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(args[1], 0, null, new byte[100])).get();
                consumer.poll(Duration.ofMillis(100));
            }
        }
    }
}
