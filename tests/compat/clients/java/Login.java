// Logs in as one JSON line on stdin says, sends some records with pauses, and says how it went.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Login {
    private static final String SECURITY = "org.apache.kafka.common.security.";

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode asked = json.readTree(System.in);
        ObjectNode told = json.createObjectNode();
        try {
            send(asked);
            told.put("ok", true);
        } catch (ExecutionException wrapped) {
            Throwable fault = wrapped.getCause();
            told.put("error", fault.toString());
            told.put("kind", kindOf(fault));
        }
        System.out.println(told);
    }

    private static String kindOf(Throwable fault) {
        if (fault instanceof SaslAuthenticationException) return "login";
        return fault instanceof SslAuthenticationException ? "tls" : "other";
    }

    private static void send(JsonNode asked) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(asked))) {
            for (int sent = 0; sent < asked.get("sends").asInt(); sent++) {
                producer.send(new ProducerRecord<>(asked.get("topic").asText(), "" + sent)).get();
                Thread.sleep(asked.get("pause_ms").asInt());
            }
        }
    }

    private static Properties settings(JsonNode asked) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("security.protocol", asked.get("protocol").asText());
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("delivery.timeout.ms", 60_000);
        settings.put("max.block.ms", 60_000);
        settings.put("request.timeout.ms", 30_000);
        settings.put("linger.ms", 0);
        if (!asked.get("ca").asText().isEmpty()) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", asked.get("ca").asText());
        }
        if (!asked.get("pair").asText().isEmpty()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", asked.get("pair").asText());
        }
        String mechanism = asked.get("mechanism").asText();
        if (!mechanism.isEmpty()) {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            settings.put("sasl.mechanism", mechanism);
            settings.put("sasl.jaas.config", SECURITY + module + " required username=\"" + asked.get("user").asText()
                + "\" password=\"" + asked.get("password").asText() + "\";");
        }
        return settings;
    }
}
