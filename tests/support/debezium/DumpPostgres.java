// What Debezium 3.6.1.Final makes of columns of a real PostgreSQL and of texts that pgoutput sends for them; run by record_postgres.py, which explains.
// Input: the connection's properties, then blocks of connector properties, then one of lines "table base64 base64...", all divided by lines "---".
// Output for each block: MODE, then for each table a line "TABLE name", "SCHEMA text", "TEXT json" for each text, "UNCHANGED json" and "NULL json".

import io.confluent.connect.avro.AvroData;
import io.confluent.connect.avro.AvroDataConfig;
import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.PostgresSchema;
import io.debezium.connector.postgresql.PostgresTaskContext;
import io.debezium.connector.postgresql.PostgresType;
import io.debezium.connector.postgresql.PostgresValueConverter;
import io.debezium.connector.postgresql.TypeRegistry;
import io.debezium.connector.postgresql.UnchangedToastedReplicationMessageColumn;
import io.debezium.connector.postgresql.connection.PostgresConnection;
import io.debezium.connector.postgresql.connection.pgoutput.ColumnMetaData;
import io.debezium.connector.postgresql.connection.pgoutput.PgOutputReplicationMessage;
import io.debezium.relational.Column;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.relational.TableSchema;
import java.io.StringReader;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.postgresql.core.BaseConnection;

public class DumpPostgres {
    static <T extends AccessibleObject> T open(T hidden) {
        hidden.setAccessible(true);
        return hidden;
    }

    /** A method that Debezium keeps to itself. */
    static Method method(Class<?> type, String name, Class<?> parameter) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Method m : c.getDeclaredMethods()) {
                if (m.getName().equals(name) && m.getParameterCount() == 1 && m.getParameterTypes()[0].isAssignableFrom(parameter)) {
                    return open(m);
                }
            }
        }
        throw new IllegalStateException(name);
    }

    static Properties properties(String text) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        return properties;
    }

    public static void main(String[] arguments) throws Exception {
        String[] blocks = Files.readString(Path.of(arguments[0])).split("\n---\n");
        for (int n = 1; n < blocks.length - 1; n++) {
            System.out.println("MODE");
            dump(properties(blocks[0]), properties(blocks[n]), blocks[blocks.length - 1].strip().split("\n"));
        }
    }

    static void dump(Properties login, Properties given, String[] tables) throws Exception {
        Map<String, String> all = new LinkedHashMap<>(Map.of("topic.prefix", "p", "plugin.name", "pgoutput", "name", "n"));
        login.stringPropertyNames().forEach(name -> all.put(name, login.getProperty(name)));
        given.stringPropertyNames().forEach(name -> all.put(name, given.getProperty(name)));
        Configuration configuration = Configuration.from(all);
        PostgresConnectorConfig config = new PostgresConnectorConfig(configuration);
        TypeRegistry registry = PostgresConnection.createTypeRegistry(config.getJdbcConfig());
        PostgresConnection.PostgresValueConverterBuilder builder = r -> PostgresValueConverter.of(config, StandardCharsets.UTF_8, r);
        Constructor<?> made = open(PostgresSchema.class.getDeclaredConstructors()[0]);
        Object context = open(PostgresTaskContext.class.getDeclaredConstructors()[0]).newInstance(configuration, config);
        try (PostgresConnection connection = new PostgresConnection(config.getJdbcConfig(), registry, builder, "dump")) {
            var schema = (PostgresSchema) made.newInstance(context, connection.getDefaultValueConverter(),
                    config.getTopicNamingStrategy(CommonConnectorConfig.TOPIC_NAMING_STRATEGY), builder.build(registry), new CustomConverterRegistry(null));
            for (String line : tables) {
                String[] parts = line.split(" ");
                System.out.println("TABLE " + parts[0]);
                TableId id = new TableId(null, "public", parts[0]);
                try {
                    Table table = table(connection, registry, id);
                    method(schema.getClass(), "refresh", Table.class).invoke(schema, table);
                    values(connection, registry, config, table, schema.schemaFor(id), List.of(parts).subList(1, parts.length));
                } catch (Exception e) {
                    System.out.println("ERROR " + String.valueOf(e.getCause() == null ? e : e.getCause()).replace("\n", " "));
                }
            }
            schema.close();
        }
    }

    /** As PgOutputMessageDecoder makes a table of a Relation message. */
    static Table table(PostgresConnection connection, TypeRegistry registry, TableId id) throws Exception {
        List<Column> read = connection.getTableColumnsForDecoder(id, (a, b, c, d) -> true);
        var editor = Table.editor().tableId(id);
        try (Statement statement = connection.connection().createStatement();
                ResultSet rows = statement.executeQuery("SELECT attname, atttypid::int, atttypmod FROM pg_attribute WHERE attnum > 0 AND attrelid = '"
                        + id.table() + "'::regclass ORDER BY attnum")) {
            while (rows.next()) {
                String name = rows.getString(1);
                Column known = read.stream().filter(c -> c.name().equals(name)).findFirst().orElseThrow();
                PostgresType type = registry.get(rows.getInt(2));
                Constructor<?> constructor = open(ColumnMetaData.class.getDeclaredConstructors()[0]);
                var data = (ColumnMetaData) constructor.newInstance(name, type, false, known.isOptional(), known.hasDefaultValue(),
                        known.defaultValueExpression().orElse(null), rows.getInt(3));
                var column = Column.editor().name(name).jdbcType(type.getRootType().getJdbcId()).nativeType(type.getRootType().getOid())
                        .optional(data.isOptional()).type(type.getName(), data.getTypeName()).length(data.getLength()).scale(data.getScale());
                if (data.hasDefaultValue()) {
                    column.defaultValueExpression(data.getDefaultValueExpression());
                }
                editor.addColumns(column.create());
            }
        }
        return editor.create();
    }

    static void values(PostgresConnection connection, TypeRegistry registry, PostgresConnectorConfig config, Table table, TableSchema schema,
            List<String> texts) {
        System.out.println("SCHEMA " + new AvroData(new AvroDataConfig(Map.of())).fromConnectSchema(schema.valueSchema()));
        Column column = table.columns().get(0);
        PostgresType type = registry.get(table.id().schema(), column.typeName());
        for (String encoded : texts) {
            String text = encoded.equals("-") ? "" : new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
            System.out.println("TEXT " + json(schema, () -> PgOutputReplicationMessage.getValue(column.name(), type, column.typeExpression(), text,
                    () -> connection.connection().unwrap(BaseConnection.class), "true".equals(config.getConfig().getString("include.unknown.datatypes")), registry)));
        }
        System.out.println("UNCHANGED " + json(schema, () -> new UnchangedToastedReplicationMessageColumn(column.name(), type, column.typeExpression(),
                column.isOptional()).getValue(null, "true".equals(config.getConfig().getString("include.unknown.datatypes")))));
        System.out.println("NULL " + json(schema, () -> null));
    }

    interface Value {
        Object get() throws Exception;
    }

    static String json(TableSchema schema, Value value) {
        try {
            JsonConverter converter = new JsonConverter();
            converter.configure(Map.of("schemas.enable", "false", "replace.null.with.default", "false"), false);
            Struct row = schema.valueFromColumnData(new Object[]{ value.get() });
            return new String(converter.fromConnectData("t", schema.valueSchema(), row), StandardCharsets.UTF_8);
        } catch (Exception e) {
            return "ERROR " + String.valueOf(e).replace("\n", " ");
        }
    }
}
