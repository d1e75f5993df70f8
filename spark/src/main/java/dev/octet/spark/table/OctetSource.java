package dev.octet.spark.table;

import dev.octet.formats.error.InvalidOptionException;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Checkpoints as tables: {@code spark.read().format("octet").load(path)} has a row for each tensor, with the columns of {@link TensorColumn}.
 * Spark finds this class by its name in {@code META-INF/services}.
 */
public final class OctetSource implements TableProvider, DataSourceRegister {
    /** Made by Spark. */
    public OctetSource() {}

    @Override
    public String shortName() {
        return "octet";
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return TensorColumn.SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        String path = properties.get("path");
        if (path == null) {
            throw new InvalidOptionException(
                    "no checkpoint is named",
                    "format octet",
                    "give one: spark.read().format(\"octet\").load(\"hdfs:/models/llama\")");
        }
        return new TensorTable(path);
    }
}
