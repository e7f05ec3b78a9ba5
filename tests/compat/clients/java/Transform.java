// One instance of a consume-transform-produce loop with transactions, until its input ends.
// Its only argument is a JSON object; tests/compat/exactly_once.py tells the fields.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Transform {
    private static volatile boolean ending;

    private final JsonNode wanted;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private KafkaProducer<byte[], byte[]> producer;
    private int transactions;

    private Transform(JsonNode wanted) {
        this.wanted = wanted;
        Properties settings = common();
        settings.put("group.id", wanted.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("session.timeout.ms", wanted.get("session_timeout_ms").asInt());
        settings.put("heartbeat.interval.ms", wanted.get("heartbeat_ms").asInt());
        settings.put("max.poll.records", wanted.get("records_max").asInt());
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(settings, bytes, bytes);
        producer = producer();
        consumer.subscribe(List.of(wanted.get("source").asText()));
    }

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                // It has ended all the same.
            }
            ending = true;
        });
        input.setDaemon(true);
        input.start();
        Transform transform = new Transform(new ObjectMapper().readTree(arguments[0]));
        while (!ending) {
            transform.once();
        }
        transform.producer.close();
        transform.consumer.close();
    }

    private void once() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
            return;
        }
        int abortEvery = wanted.get("abort_every").asInt();
        boolean aborts = abortEvery > 0 && ++transactions % abortEvery == 0;
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(wanted.get("target").asText(),
                    record.partition(), record.key(), record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (!aborts) {
                producer.commitTransaction();
                return;
            }
            producer.abortTransaction();
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException refused) {
            abort();
        }
        rewind();
    }

    /** A producer that cannot even abort is replaced; taking its id again ends what it left. */
    private void abort() {
        try {
            producer.abortTransaction();
        } catch (KafkaException refused) {
            producer.close(Duration.ZERO);
            producer = producer();
        }
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed =
            consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata position = committed.get(partition);
            if (position == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, position.offset());
            }
        }
    }

    private KafkaProducer<byte[], byte[]> producer() {
        Properties settings = common();
        settings.put("transactional.id", wanted.get("transactional_id").asText());
        ByteArraySerializer bytes = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(settings, bytes, bytes);
        made.initTransactions();
        return made;
    }

    private Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", wanted.get("bootstrap").asText());
        return settings;
    }
}
