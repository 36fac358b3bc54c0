// What Debezium 3.6.3.Final and Confluent's AvroConverter 7.0.16 make of CREATE TABLE statements; run by record.py, which explains.
// Input: blocks divided by lines "---": connector properties, an empty line, a statement. Output for each block: OK, KEY, VALUE (and JSON), or ERROR.

import io.confluent.connect.avro.AvroData;
import io.confluent.connect.avro.AvroDataConfig;
import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.MySqlConnectorTask;
import io.debezium.connector.mysql.MySqlDatabaseSchema;
import io.debezium.connector.mysql.MySqlTaskContext;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.TableId;
import io.debezium.relational.TableSchema;
import io.debezium.relational.Tables;
import io.debezium.relational.ddl.DdlParser;
import java.io.StringReader;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.json.JsonConverter;

public class DumpSchemas {
    /** Methods that Debezium keeps to itself. */
    static Method method(Class<?> type, String name, int parameters) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Method m : c.getDeclaredMethods()) {
                if (m.getName().equals(name) && m.getParameterCount() == parameters && !m.isBridge()) {
                    m.setAccessible(true);
                    return m;
                }
            }
        }
        throw new IllegalStateException(name);
    }

    public static void main(String[] arguments) throws Exception {
        for (String block : Files.readString(Path.of(arguments[0])).split("\n---\n")) {
            int cut = block.indexOf("\n\n");
            Properties properties = new Properties();
            properties.load(new StringReader(block.substring(0, cut)));
            try {
                dump(properties, block.substring(cut + 2));
            } catch (Exception e) {
                System.out.println("ERROR " + String.valueOf(e).replace("\n", " "));
            }
        }
    }

    static void dump(Properties given, String ddl) throws Exception {
        Map<String, String> all = new LinkedHashMap<>(Map.of(
                // The parser, used without a snapshot, keeps no database in the table's id: so it stands in the prefix.
                "topic.prefix", "p.db", "database.hostname", "h", "database.user", "u", "database.password", "p", "database.server.id", "1",
                "name", "n", "schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory"));
        given.stringPropertyNames().forEach(name -> all.put(name, given.getProperty(name)));
        Configuration configuration = Configuration.from(all);
        MySqlConnectorTask task = new MySqlConnectorTask();
        MySqlConnectorConfig config = new MySqlConnectorConfig(configuration);
        config.getBeanRegistry().add("Configuration", configuration);
        config.getBeanRegistry().add("ConnectorConfig", config);
        method(MySqlConnectorTask.class, "registerServiceProviders", 1).invoke(task, config.getServiceRegistry());
        var converters = (MySqlValueConverters) method(MySqlConnectorTask.class, "getValueConverters", 1).invoke(task, config);
        var naming = config.getTopicNamingStrategy(CommonConnectorConfig.TOPIC_NAMING_STRATEGY);
        var schema = new MySqlDatabaseSchema(config, converters, naming, config.schemaNameAdjuster(), false,
                new CustomConverterRegistry(null), new MySqlTaskContext(configuration, config));
        try {
            var parser = (DdlParser) method(schema.getClass(), "getDdlParser", 0).invoke(schema);
            var tables = (Tables) method(schema.getClass(), "tables", 0).invoke(schema);
            parser.parse(ddl, tables);
            TableId id = tables.tableIds().iterator().next();
            method(schema.getClass(), "buildAndRegisterSchema", 1).invoke(schema, tables.forTable(id));
            TableSchema made = schema.schemaFor(id);
            AvroData avro = new AvroData(new AvroDataConfig(Map.of()));
            System.out.println("OK " + naming.dataChangeTopic(id));
            if (made.keySchema() != null) {
                System.out.println("KEY " + avro.fromConnectSchema(made.keySchema()));
            }
            if (given.containsKey("envelope")) {
                System.out.println("VALUE " + avro.fromConnectSchema(made.getEnvelopeSchema().schema()));
                JsonConverter json = new JsonConverter();
                json.configure(Map.of("schemas.enable", "true"), false);
                System.out.println("JSON " + json.asJsonSchema(made.getEnvelopeSchema().schema()));
            } else {
                System.out.println("VALUE " + avro.fromConnectSchema(made.valueSchema()));
            }
        } finally {
            schema.close(); // a second one could not register its metrics
        }
    }
}
