import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of a topic: a repartition topic by word, a store of counts
 * with its changelog, at least once. Says "running" when it is, and ends
 * orderly when its standard input does.
 *
 * Arguments: bootstrap application-id input output state-directory
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("application.id", args[1]);
        p.put("state.dir", args[4]);
        p.put("num.stream.threads", "2");
        p.put("commit.interval.ms", "200");
        p.put("statestore.cache.max.bytes", "0");
        p.put("consumer.auto.offset.reset", "earliest");
        p.put("consumer.session.timeout.ms", "6000");
        p.put("consumer.heartbeat.interval.ms", "500");
        StreamsBuilder b = new StreamsBuilder();
        b.stream(args[2], Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams s = new KafkaStreams(b.build(), p);
        s.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(3);
            }
        });
        s.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        s.start();
        while (System.in.read() >= 0) {
            // until the end
        }
        System.exit(s.close(Duration.ofSeconds(30)) ? 0 : 4);
    }
}
