package dev.octet.spark.table;

import java.util.Arrays;
import java.util.Locale;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/** The columns of {@link OctetSource}, which are the parts of {@link TensorRow}. */
enum TensorColumn {
    NAME(DataTypes.StringType, r -> UTF8String.fromString(r.name())),
    DTYPE(DataTypes.StringType, r -> UTF8String.fromString(r.dtype())),
    SHAPE(
            DataTypes.createArrayType(DataTypes.LongType, false),
            r -> new GenericArrayData(
                    r.shape().stream().mapToLong(Long::longValue).toArray())),
    BYTES(DataTypes.LongType, TensorRow::bytes),
    FILE(DataTypes.StringType, r -> UTF8String.fromString(r.file())),
    WEIGHT(DataTypes.StringType, r -> UTF8String.fromString(r.weight())),
    ROLE(DataTypes.StringType, r -> UTF8String.fromString(r.role())),
    FORM(DataTypes.StringType, r -> r.form() == null ? null : UTF8String.fromString(r.form())),
    SCALE_COUNT(DataTypes.LongType, r -> r.scales() == null ? null : r.scales().count()),
    SCALE_MIN(DataTypes.DoubleType, r -> r.scales() == null ? null : r.scales().min()),
    SCALE_MAX(DataTypes.DoubleType, r -> r.scales() == null ? null : r.scales().max()),
    SCALE_MEAN(DataTypes.DoubleType, r -> r.scales() == null ? null : r.scales().mean());

    static final StructType SCHEMA = new StructType(
            Arrays.stream(values()).map(TensorColumn::field).toArray(StructField[]::new));

    private final DataType type;
    private final Function<TensorRow, @Nullable Object> value;

    TensorColumn(DataType type, Function<TensorRow, @Nullable Object> value) {
        this.type = type;
        this.value = value;
    }

    private String column() {
        return name().toLowerCase(Locale.ROOT);
    }

    private StructField field() {
        return DataTypes.createStructField(column(), type, ordinal() >= FORM.ordinal());
    }

    /** Whether its values take a reading of scales. */
    boolean isOfScales() {
        return ordinal() >= SCALE_COUNT.ordinal();
    }

    /** The column of this name in a schema. */
    static TensorColumn named(String name) {
        return valueOf(name.toUpperCase(Locale.ROOT));
    }

    /** The value as Spark keeps it. */
    @Nullable Object of(TensorRow row) {
        return value.apply(row);
    }
}
