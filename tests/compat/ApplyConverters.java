import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Writes keys, values and headers with converters of Kafka Connect, Debezium and Confluent, for compare_converters.py.
 *
 * Each line of the file named first is a case: a class, its settings, "key", "value" or "header" as its use, and
 * records with their data as JSON with schemas, or without in "plain". Each line of the file named second is the
 * case's result: the bytes of each record in base64, null, or an error, and the schemas that the registry holds then.
 */
public class ApplyConverters {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        List<String> results = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            results.add(MAPPER.writeValueAsString(result(MAPPER.readTree(line))));
        }
        Files.write(Path.of(arguments[1]), results);
    }

    private static JsonNode result(JsonNode given) {
        ObjectNode made = MAPPER.createObjectNode();
        ArrayNode written = made.putArray("written");
        SchemaRegistryClient registry = null;
        Object converter;
        Map<String, Object> settings = new HashMap<>();
        given.get("settings").fields().forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        String use = given.get("use").asText();
        try {
            registry = new MockSchemaRegistryClient(List.of(provider("avro.Avro"), provider("protobuf.Protobuf")));
            converter = made(given.get("class").asText(), registry, settings);
            if (use.equals("header")) {
                settings.put("converter.type", "header");
                ((HeaderConverter) converter).configure(settings);
            }
            else {
                ((Converter) converter).configure(settings, use.equals("key"));
            }
        }
        catch (Exception e) {
            written.add("refused: " + e);
            return made;
        }
        JsonConverter reads = reader(true);
        JsonConverter readsPlain = reader(false);
        for (JsonNode record : given.get("records")) {
            try {
                String topic = record.get("topic").asText();
                SchemaAndValue data = record.has("plain") ? readsPlain.toConnectData("", bytes(record.get("plain"))) : reads.toConnectData("", bytes(record.get("data")));
                byte[] out = use.equals("header")
                        ? ((HeaderConverter) converter).fromConnectHeader(topic, "h", data.schema(), data.value())
                        : ((Converter) converter).fromConnectData(topic, new RecordHeaders(), data.schema(), data.value());
                written.add(out == null ? null : Base64.getEncoder().encodeToString(out));
            }
            catch (Exception | StackOverflowError e) {
                Throwable cause = e.getCause() == null ? e : e.getCause();
                written.add("error: " + e + " / " + cause);
            }
        }
        try {
            ObjectNode subjects = made.putObject("registered");
            for (String subject : new TreeSet<>(registry.getAllSubjects())) {
                ArrayNode versions = subjects.putArray(subject);
                for (Integer version : registry.getAllVersions(subject)) {
                    SchemaMetadata found = registry.getSchemaMetadata(subject, version);
                    ObjectNode one = versions.addObject();
                    one.put("id", found.getId());
                    one.put("type", found.getSchemaType());
                    one.put("schema", found.getSchema());
                    ArrayNode references = one.putArray("references");
                    if (found.getReferences() != null) {
                        for (SchemaReference reference : found.getReferences()) {
                            references.add(reference.getName() + " " + reference.getSubject() + " " + reference.getVersion());
                        }
                    }
                }
            }
        }
        catch (Exception e) {
            made.put("registry", e.toString());
        }
        return made;
    }

    private static io.confluent.kafka.schemaregistry.SchemaProvider provider(String name) throws Exception {
        Class<?> found = Class.forName("io.confluent.kafka.schemaregistry." + name + "SchemaProvider");
        return (io.confluent.kafka.schemaregistry.SchemaProvider) found.getDeclaredConstructor().newInstance();
    }

    private static Object made(String className, SchemaRegistryClient registry, Map<String, Object> settings) throws Exception {
        Class<?> found = Class.forName(className);
        for (Constructor<?> constructor : found.getDeclaredConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (types.length == 1 && types[0] == SchemaRegistryClient.class) {
                settings.putIfAbsent("schema.registry.url", "http://registry:8081");
                return constructor.newInstance(registry);
            }
            if (types.length == 1 && types[0] == Converter.class) {
                Converter avro = (Converter) made("io.confluent.connect.avro.AvroConverter", registry, new HashMap<>());
                Map<String, Object> below = new HashMap<>(Map.of("schema.registry.url", "http://registry:8081"));
                settings.forEach((name, value) -> {
                    if (name.startsWith("avro.")) {
                        below.put(name.substring(5), value);
                    }
                });
                avro.configure(below, false);
                settings.putIfAbsent("avro.schema.registry.url", "http://registry:8081");
                return constructor.newInstance(avro);
            }
        }
        return found.getDeclaredConstructor().newInstance();
    }

    private static JsonConverter reader(boolean withSchemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", Boolean.toString(withSchemas), "replace.null.with.default", "false"), false);
        return made;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }
}
