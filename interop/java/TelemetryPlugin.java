import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * What Apache Kafka wants before it serves pushed metrics: takes them and drops
 * them, and fails on what begins with 0xff, as a reader of protobuf would.
 */
@SuppressWarnings({"deprecation", "removal"})
public final class TelemetryPlugin implements MetricsReporter, ClientTelemetry {
    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            if (payload.data().hasRemaining() && payload.data().get(0) == (byte) 0xff) {
                throw new IllegalArgumentException("not protobuf");
            }
        };
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }
}
