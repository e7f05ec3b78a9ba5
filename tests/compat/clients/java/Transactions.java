// Transactional producers by name.

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Transactions {
    private final Properties common;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Transactions(Properties common) {
        this.common = common;
    }

    Object perform(String op, JsonNode asked) throws Exception {
        String name = asked.get("producer").asText();
        KafkaProducer<byte[], byte[]> producer = producers.get(name);
        switch (op) {
            case "producer_init":
                Properties settings = new Properties();
                settings.putAll(common);
                settings.put("transactional.id", asked.get("transactional_id").asText());
                settings.put("transaction.timeout.ms", asked.get("timeout_ms").asInt());
                ByteArraySerializer bytes = new ByteArraySerializer();
                KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(settings, bytes, bytes);
                producers.put(name, made);
                made.initTransactions();
                return null;
            case "producer_begin":
                producer.beginTransaction();
                return null;
            case "producer_send":
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (JsonNode value : asked.get("values")) {
                    sent.add(producer.send(new ProducerRecord<>(asked.get("topic").asText(),
                        asked.get("partition").asInt(), null,
                        Base64.getDecoder().decode(value.asText()))));
                }
                producer.flush();
                for (Future<RecordMetadata> one : sent) {
                    one.get();
                }
                return null;
            case "producer_offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                asked.get("offsets").properties().forEach(row -> offsets.put(
                    new TopicPartition(asked.get("topic").asText(), Integer.parseInt(row.getKey())),
                    new OffsetAndMetadata(row.getValue().asLong())));
                producer.sendOffsetsToTransaction(
                    offsets, new ConsumerGroupMetadata(asked.get("group").asText()));
                return null;
            case "producer_commit":
                producer.commitTransaction();
                return null;
            case "producer_abort":
                producer.abortTransaction();
                return null;
            case "producer_close":
                producer.close(Duration.ZERO);
                return null;
            default:
                throw new IllegalArgumentException(op);
        }
    }
}
