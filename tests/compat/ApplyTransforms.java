import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.connect.avro.AvroData;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Applies transforms of Kafka Connect and Debezium to records, for compare_transforms.py.
 *
 * Each line of the file named first is a case: its configuration, and its records with key and value as JSON with
 * schemas. Each line of the file named second is the list of results: null for a dropped record, the class of the
 * error, or the record.
 */
public class ApplyTransforms {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private record Step(Transformation<SourceRecord> transform, Predicate<SourceRecord> predicate, boolean negate) {
    }

    public static void main(String[] arguments) throws Exception {
        List<String> results = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            JsonNode given = MAPPER.readTree(line);
            results.add(MAPPER.writeValueAsString(results(given)));
        }
        Files.write(Path.of(arguments[1]), results);
    }

    private static ArrayNode results(JsonNode given) {
        ArrayNode made = MAPPER.createArrayNode();
        List<Step> steps;
        try {
            steps = steps(given.get("config"));
        }
        catch (Exception e) {
            made.add("refused: " + e);
            return made;
        }
        JsonConverter reads = converter(false);
        JsonConverter writes = converter(true);
        for (JsonNode record : given.get("records")) {
            try {
                made.add(result(applied(steps, read(record, reads)), writes));
            }
            catch (Exception e) {
                made.add(e.getClass().getName() + ": " + e.getMessage());
            }
        }
        return made;
    }

    private static JsonConverter converter(boolean replacesNull) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", "true", "replace.null.with.default", Boolean.toString(replacesNull)), false);
        return made;
    }

    @SuppressWarnings("unchecked")
    private static List<Step> steps(JsonNode config) throws Exception {
        List<Step> steps = new ArrayList<>();
        for (String alias : config.get("transforms").asText().split(",")) {
            Map<String, String> own = below(config, "transforms." + alias + ".");
            Transformation<SourceRecord> transform = (Transformation<SourceRecord>) made(own.get("type"));
            transform.configure(own);
            Predicate<SourceRecord> predicate = null;
            if (own.containsKey("predicate")) {
                Map<String, String> options = below(config, "predicates." + own.get("predicate") + ".");
                predicate = (Predicate<SourceRecord>) made(options.get("type"));
                predicate.configure(options);
            }
            steps.add(new Step(transform, predicate, Boolean.parseBoolean(own.get("negate"))));
        }
        return steps;
    }

    private static Object made(String className) throws Exception {
        return Class.forName(className).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> below(JsonNode config, String prefix) {
        Map<String, String> found = new HashMap<>();
        config.fields().forEachRemaining(entry -> {
            if (entry.getKey().startsWith(prefix)) {
                found.put(entry.getKey().substring(prefix.length()), entry.getValue().asText());
            }
        });
        return found;
    }

    private static SourceRecord read(JsonNode given, JsonConverter reads) {
        SchemaAndValue key = reads.toConnectData("", bytes(given.get("key")));
        SchemaAndValue value = reads.toConnectData("", bytes(given.get("value")));
        ConnectHeaders headers = new ConnectHeaders();
        given.get("headers").forEach(header -> headers.addString(header.get(0).asText(), header.get(1).asText()));
        Integer partition = given.get("partition").isNull() ? null : given.get("partition").asInt();
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        return new SourceRecord(new LinkedHashMap<String, Object>(), new LinkedHashMap<String, Object>(), given.get("topic").asText(), partition, key.schema(),
                key.value(), value.schema(), value.value(), timestamp, headers);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static SourceRecord applied(List<Step> steps, SourceRecord record) {
        for (Step step : steps) {
            if (record != null && (step.predicate() == null || step.predicate().test(record) != step.negate())) {
                record = step.transform().apply(record);
            }
        }
        return record;
    }

    private static JsonNode result(SourceRecord record, JsonConverter writes) {
        if (record == null) {
            return MAPPER.nullNode();
        }
        ObjectNode made = MAPPER.createObjectNode();
        made.put("topic", record.topic());
        made.put("partition", record.kafkaPartition());
        made.put("timestamp", record.timestamp());
        made.put("key", text(writes.fromConnectData(record.topic(), record.keySchema(), record.key())));
        made.put("value", text(writes.fromConnectData(record.topic(), record.valueSchema(), record.value())));
        made.put("key in Avro", avroText(record.keySchema()));
        made.put("value in Avro", avroText(record.valueSchema()));
        ArrayNode headers = made.putArray("headers");
        SimpleHeaderConverter converter = new SimpleHeaderConverter();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(converter.fromConnectHeader("", header.key(), header.schema(), header.value())));
        }
        return made;
    }

    private static String avroText(Schema schema) {
        try {
            return schema == null ? null : new AvroData(1).fromConnectSchema(schema).toString();
        }
        catch (Exception e) {
            return "no Avro schema";
        }
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
