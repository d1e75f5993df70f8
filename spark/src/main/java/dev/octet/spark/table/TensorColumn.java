package dev.octet.spark.table;

import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/**
 * A column of {@link OctetSource}, a part of {@link TensorRow}.
 *
 * @param kind whether it has a value in every row, or takes a reading of scales
 * @param value as Spark keeps it
 */
record TensorColumn(String name, DataType type, Kind kind, Function<TensorRow, @Nullable Object> value) {
    private enum Kind {
        ALWAYS,
        OF_CODES,
        OF_SCALES
    }

    private static final List<TensorColumn> ALL = List.of(
            text("name", TensorRow::name),
            text("dtype", TensorRow::dtype),
            new TensorColumn(
                    "shape",
                    DataTypes.createArrayType(DataTypes.LongType, false),
                    Kind.ALWAYS,
                    r -> new GenericArrayData(
                            r.shape().stream().mapToLong(Long::longValue).toArray())),
            new TensorColumn("bytes", DataTypes.LongType, Kind.ALWAYS, TensorRow::bytes),
            text("file", TensorRow::file),
            text("weight", TensorRow::weight),
            text("role", r -> r.role().label()),
            new TensorColumn(
                    "form",
                    DataTypes.StringType,
                    Kind.OF_CODES,
                    r -> r.form() == null ? null : UTF8String.fromString(r.form())),
            ofScales("scale_count", DataTypes.LongType, TensorRow.ScaleSpread::count),
            ofScales("scale_min", DataTypes.DoubleType, TensorRow.ScaleSpread::min),
            ofScales("scale_max", DataTypes.DoubleType, TensorRow.ScaleSpread::max),
            ofScales("scale_mean", DataTypes.DoubleType, TensorRow.ScaleSpread::mean));

    static final StructType SCHEMA =
            new StructType(ALL.stream().map(TensorColumn::field).toArray(StructField[]::new));

    private static TensorColumn text(String name, Function<TensorRow, String> value) {
        return new TensorColumn(name, DataTypes.StringType, Kind.ALWAYS, r -> UTF8String.fromString(value.apply(r)));
    }

    private static TensorColumn ofScales(String name, DataType type, Function<TensorRow.ScaleSpread, Object> value) {
        return new TensorColumn(name, type, Kind.OF_SCALES, r -> r.scales() == null ? null : value.apply(r.scales()));
    }

    private StructField field() {
        return DataTypes.createStructField(name, type, kind != Kind.ALWAYS);
    }

    /** Whether its values take a reading of scales. */
    boolean isOfScales() {
        return kind == Kind.OF_SCALES;
    }

    /** The columns of these names, in this order. */
    static List<TensorColumn> named(List<String> names) {
        return names.stream()
                .map(n -> ALL.stream()
                        .filter(c -> c.name().equals(n))
                        .findFirst()
                        .orElseThrow(() -> new IllegalArgumentException("no column '" + n + "'")))
                .toList();
    }

    /** The value as Spark keeps it. */
    @Nullable
    Object of(TensorRow row) {
        return value.apply(row);
    }
}
