// Apache Kafka's own Java client, asked in JSON lines; tests/compat/clients/program.py tells how.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Client {
    private static final int REQUEST_BYTES_MAX = 4 * 1024 * 1024;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final long millisMax;
    private final Admin admin;
    private final Groups groups;
    private final Transactions transactions;

    private Client(String bootstrap, long millisMax) {
        this.bootstrap = bootstrap;
        this.millisMax = millisMax;
        this.admin = Admin.create(common());
        this.groups = new Groups(common(), admin);
        this.transactions = new Transactions(common());
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0], Long.parseLong(arguments[1]));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(client.answer(JSON.readTree(line))));
            out.flush();
        }
        client.admin.close();
        // Members that a failed test left behind must not keep the program alive.
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode asked) {
        try {
            return Collections.singletonMap("result", perform(asked));
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            if (cause instanceof ProducerFencedException) {
                return Map.of("fenced", cause.getClass().getSimpleName());
            }
            if (cause instanceof KafkaException) {
                int code = Errors.forException(cause).code();
                return Map.of("refused", code, "message", String.valueOf(cause.getMessage()));
            }
            return Map.of("failed", String.valueOf(e));
        }
    }

    private Object perform(JsonNode asked) throws Exception {
        String topic = asked.path("topic").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        TopicPartition partition = new TopicPartition(topic, asked.path("partition").asInt());
        switch (asked.get("op").asText()) {
            case "produce":
                return produce(topic, asked);
            case "consume":
                return consume(topic, asked);
            case "create_topic":
                Optional<Integer> count = Optional.of(asked.get("partitions").asInt());
                NewTopic created = new NewTopic(topic, count, Optional.empty());
                created.configs(texts(asked.get("configs")));
                return admin.createTopics(List.of(created)).all().get();
            case "topics":
                return admin.listTopics().names().get();
            case "describe_topic":
                return partitions(topic);
            case "configs":
                Map<String, String> entries = new HashMap<>();
                admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()
                    .forEach(entry -> entries.put(entry.name(), entry.value()));
                return entries;
            case "alter_configs":
                List<AlterConfigOp> changes = new ArrayList<>();
                texts(asked.get("changes")).forEach((name, value) -> changes.add(
                    new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
                return admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
            case "create_partitions":
                NewPartitions total = NewPartitions.increaseTo(asked.get("total").asInt());
                return admin.createPartitions(Map.of(topic, total)).all().get();
            case "delete_records":
                RecordsToDelete before =
                    RecordsToDelete.beforeOffset(asked.get("before_offset").asLong());
                return admin.deleteRecords(Map.of(partition, before)).all().get();
            case "offsets":
                return List.of(
                    offset(partition, OffsetSpec.earliest()), offset(partition, OffsetSpec.latest()));
            case "offset_at":
                long timestamp = asked.get("timestamp_ms").asLong();
                return offset(partition, OffsetSpec.forTimestamp(timestamp));
            case "delete_topic":
                return admin.deleteTopics(List.of(topic)).all().get();
            default:
                String op = asked.get("op").asText();
                return asked.has("producer")
                    ? transactions.perform(op, asked) : groups.perform(op, asked);
        }
    }

    private List<Long> produce(String topic, JsonNode asked) throws Exception {
        Properties settings = common();
        boolean all = asked.get("acks").asText().equals("all");
        settings.put("acks", asked.get("acks").asText());
        settings.put("enable.idempotence", all);
        settings.put("compression.type", asked.get("codec").asText());
        settings.put("max.request.size", REQUEST_BYTES_MAX);
        settings.put("linger.ms", 5);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Long> offsets = new ArrayList<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (JsonNode row : asked.get("records")) {
                sent.add(producer.send(record(topic, row)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                offsets.add(one.get().offset());
            }
        }
        return offsets;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode row)
            throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode pair : row.get(3)) {
            headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
        }
        return new ProducerRecord<>(topic, row.get(0).asInt(), row.get(4).asLong(),
            bytes(row.get(1)), bytes(row.get(2)), headers);
    }

    private List<Object> consume(String topic, JsonNode asked) {
        JsonNode counts = asked.get("counts");
        Properties settings = common();
        settings.put("isolation.level", asked.get("isolation").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        settings.put("max.partition.fetch.bytes", REQUEST_BYTES_MAX);
        settings.put("max.poll.records", 5000);
        List<TopicPartition> assigned = new ArrayList<>();
        int missing = 0;
        for (Iterator<String> names = counts.fieldNames(); names.hasNext(); ) {
            String index = names.next();
            assigned.add(new TopicPartition(topic, Integer.parseInt(index)));
            missing += counts.get(index).asInt();
        }
        List<Object> rows = new ArrayList<>();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        long deadline = System.nanoTime() + millisMax * 1_000_000;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            while (rows.size() < missing && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(500))) {
                    rows.add(row(one));
                }
            }
        }
        return rows;
    }

    private static List<Object> row(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        List<Object> row = new ArrayList<>();
        row.add(record.partition());
        row.add(record.offset());
        row.add(text(record.key()));
        row.add(text(record.value()));
        row.add(headers);
        row.add(record.timestamp());
        return row;
    }

    private List<Object> partitions(String topic) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (TopicPartitionInfo info : admin.describeTopics(List.of(topic)).allTopicNames().get()
                .get(topic).partitions()) {
            rows.add(List.of(info.partition(), info.leader().id(), ids(info.replicas()),
                ids(info.isr())));
        }
        return rows;
    }

    private long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).all().get().get(partition).offset();
    }

    private Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static List<Integer> ids(List<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    private static Map<String, String> texts(JsonNode object) {
        Map<String, String> texts = new TreeMap<>();
        object.properties().forEach(field -> texts.put(field.getKey(), field.getValue().asText()));
        return texts;
    }

    private static byte[] bytes(JsonNode text) throws Exception {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
