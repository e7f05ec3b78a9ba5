// A member of a consumer group: a consumer that polls in a thread of its own.

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class Member implements Runnable, ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean commits;
    private final Thread thread = new Thread(this);
    private final ConcurrentLinkedQueue<Runnable> asked = new ConcurrentLinkedQueue<>();
    private final Set<TopicPartition> owned = new HashSet<>();
    private List<Object> changes = new ArrayList<>();
    private List<Object> reads = new ArrayList<>();
    private volatile boolean stopping;
    private volatile RuntimeException failure;

    Member(Properties common, JsonNode wanted) {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.put("group.id", wanted.get("group").asText());
        settings.put("client.id", "member-of-" + wanted.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("partition.assignment.strategy",
            ASSIGNORS.get(wanted.get("assignor").asText()));
        settings.put("session.timeout.ms", wanted.get("session_timeout_ms").asInt());
        settings.put("heartbeat.interval.ms", wanted.get("heartbeat_ms").asInt());
        settings.put("metadata.max.age.ms", wanted.get("metadata_age_ms").asInt());
        if (!wanted.get("instance").isNull()) {
            settings.put("group.instance.id", wanted.get("instance").asText());
        }
        commits = wanted.get("commits").asBoolean();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(settings, bytes, bytes);
        if (wanted.get("pattern").isNull()) {
            List<String> topics = new ArrayList<>();
            wanted.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        } else {
            consumer.subscribe(Pattern.compile(wanted.get("pattern").asText()), this);
        }
        thread.start();
    }

    @Override
    public void run() {
        try {
            while (!stopping) {
                for (Runnable work = asked.poll(); work != null; work = asked.poll()) {
                    work.run();
                }
                boolean any = false;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    any = true;
                    read(record);
                }
                if (any && commits) {
                    commitSync();
                }
            }
            // It stops working on its partitions before the group hears of it.
            changed("revoked", new ArrayList<>(owned));
            consumer.close();
        } catch (RuntimeException e) {
            failure = e;
        }
    }

    private void commitSync() {
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RebalanceInProgressException overtaken) {
            // A rebalance was faster: the next owner reads those records again.
        }
    }

    void commit(boolean wait) throws Exception {
        ask(() -> {
            if (wait) {
                commitSync();
            } else {
                consumer.commitAsync();
            }
        });
    }

    void seek(TopicPartition partition, long offset) throws Exception {
        ask(() -> consumer.seek(partition, offset));
    }

    private void ask(Runnable work) throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asked.add(() -> {
            try {
                work.run();
                done.complete(null);
            } catch (RuntimeException e) {
                done.completeExceptionally(e);
            }
        });
        done.get();
    }

    void stop() throws InterruptedException {
        stopping = true;
        thread.join();
        check();
    }

    /** What happened since this was asked last. */
    synchronized Map<String, Object> seen() {
        check();
        Map<String, Object> seen = Map.of("changes", changes, "reads", reads);
        changes = new ArrayList<>();
        reads = new ArrayList<>();
        return seen;
    }

    private void check() {
        if (failure != null) {
            throw failure;
        }
    }

    private synchronized void read(ConsumerRecord<byte[], byte[]> record) {
        reads.add(List.of(record.topic(), record.partition(), record.offset(),
            Base64.getEncoder().encodeToString(record.value())));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        changed("assigned", partitions);
        owned.addAll(partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        changed("revoked", partitions);
        owned.removeAll(partitions);
    }

    private synchronized void changed(String kind, Collection<TopicPartition> partitions) {
        List<Object> places = new ArrayList<>();
        partitions.forEach(one -> places.add(List.of(one.topic(), one.partition())));
        long micros = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        changes.add(List.of(micros, kind, places));
    }
}
