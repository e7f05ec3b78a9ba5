import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Measurable;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Apache Kafka's own arithmetic of quotas. Each line of the input begins a quota ("rate" or "bucket", samples,
 * milliseconds of a sample, limit) or is an event of the last one (time, value); each event is answered by the
 * milliseconds that its client has to wait.
 */
public class Quotas {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        Rate rate = null;
        TokenBucket bucket = null;
        MetricConfig config = null;
        double limit = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 4) {
                boolean isRate = words[0].equals("rate");
                rate = isRate ? new Rate() : null;
                bucket = isRate ? null : new TokenBucket();
                limit = Double.parseDouble(words[3]);
                config = new MetricConfig()
                    .samples(Integer.parseInt(words[1]))
                    .timeWindow(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)
                    .quota(new Quota(limit, true));
                continue;
            }
            long now = Long.parseLong(words[0]);
            double value = Double.parseDouble(words[1]);
            long wait = 0;
            if (rate != null) {
                rate.record(config, value, now);
                double measured = rate.measure(config, now);
                if (measured > limit)
                    wait = QuotaUtils.throttleTime(violation(rate, config, measured, limit), now);
            } else {
                bucket.record(config, value, now);
                double tokens = bucket.measure(config, now);
                if (tokens < 0)
                    wait = ControllerMutationQuotaManager.throttleTimeMs(violation(bucket, config, tokens, limit));
            }
            out.append(wait).append('\n');
        }
        System.out.print(out);
    }

    private static QuotaViolationException violation(Measurable by, MetricConfig config, double value, double limit) {
        MetricName name = new MetricName("quota", "quotas", "", Map.of());
        return new QuotaViolationException(new KafkaMetric(new Object(), name, by, config, Time.SYSTEM), value, limit);
    }
}
