package dev.octet.converter.data;

import dev.hardwood.InputFile;
import dev.hardwood.metadata.ColumnChunk;
import dev.hardwood.metadata.CompressionCodec;
import dev.hardwood.metadata.RowGroup;
import dev.hardwood.reader.ParquetFileReader;
import dev.hardwood.reader.RowReader;
import dev.hardwood.row.PqList;
import dev.hardwood.row.PqMap;
import dev.hardwood.row.PqStruct;
import dev.hardwood.row.StructAccessor;
import dev.hardwood.schema.ColumnProjection;
import dev.hardwood.schema.SchemaNode;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.OctetException;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The rows of a Parquet file, read row group by row group.
 *
 * @param file the file
 */
record ParquetRows(Path file) implements Rows {
    /**
     * Decompression in Java. Otherwise snappy would unpack native code into the temporary folder, and gzip would be left to a libdeflate that
     * happens to lie on the system.
     */
    private static final Map<String, String> IN_JAVA =
            Map.of("org.xerial.snappy.purejava", "true", "hardwood.uselibdeflate", "false");

    private static final Set<CompressionCodec> READ =
            Set.of(CompressionCodec.UNCOMPRESSED, CompressionCodec.SNAPPY, CompressionCodec.GZIP);

    @Override
    public void read(Set<String> columns, Visitor visitor) throws IOException {
        if (!Files.isRegularFile(file)) {
            throw new NoSuchFileException(file.toString());
        }
        IN_JAVA.forEach((name, value) -> {
            if (System.getProperty(name) == null) {
                System.setProperty(name, value);
            }
        });
        try (ParquetFileReader reader = ParquetFileReader.open(InputFile.of(file))) {
            List<String> there = reader.getFileSchema().getRootNode().children().stream()
                    .map(SchemaNode::name)
                    .filter(columns::contains)
                    .toList();
            if (there.isEmpty()) {
                throw new InvalidDataException(
                        "the file has the columns "
                                + reader.getFileSchema().getRootNode().children().stream()
                                        .map(SchemaNode::name)
                                        .toList(),
                        file.toString(),
                        "rename the column that is to be read: "
                                + SampleKind.TRAINED.stream()
                                        .map(SampleKind::toString)
                                        .toList());
            }
            requireCompression(reader, there);
            ColumnProjection projection = ColumnProjection.columns(there.toArray(String[]::new));
            try (RowReader rows = reader.buildRowReader().projection(projection).build()) {
                boolean on = true;
                for (long number = 0; on && rows.hasNext(); number++) {
                    rows.next();
                    on = visitor.row(new Row(values(rows), file + ", row " + number + " (from 0)"));
                }
            }
        } catch (OctetException e) {
            throw e;
        } catch (IOException | RuntimeException | LinkageError e) {
            throw new InvalidDataException(
                    "not a Parquet file that can be read: " + e.getMessage(),
                    file.toString(),
                    "copy the file again, or write it anew",
                    e);
        }
    }

    private void requireCompression(ParquetFileReader reader, List<String> columns) {
        for (RowGroup group : reader.getFileMetaData().rowGroups()) {
            for (ColumnChunk column : group.columns()) {
                CompressionCodec codec = column.metaData().codec();
                String name = column.metaData().pathInSchema().elements().getFirst();
                if (columns.contains(name) && !READ.contains(codec)) {
                    throw new InvalidDataException(
                            "column \"" + name + "\" is compressed by " + codec + ", which is not read",
                            file.toString(),
                            "write it anew with snappy, gzip or no compression: "
                                    + "pyarrow.parquet.write_table(pyarrow.parquet.read_table(FILE), OUT)");
                }
            }
        }
    }

    private static Map<String, @Nullable Object> values(StructAccessor struct) {
        Map<String, @Nullable Object> values = new LinkedHashMap<>();
        for (int i = 0; i < struct.getFieldCount(); i++) {
            values.put(struct.getFieldName(i), struct.isNull(i) ? null : value(struct.getValue(i)));
        }
        return values;
    }

    private static @Nullable Object value(@Nullable Object value) {
        return switch (value) {
            case null -> null;
            case String s -> s;
            case Boolean b -> b;
            case Float f -> (double) f;
            case BigDecimal d -> d.doubleValue();
            case Number n -> n;
            case byte[] bytes -> new String(bytes, StandardCharsets.UTF_8);
            case PqList list -> {
                List<@Nullable Object> elements = new ArrayList<>(list.size());
                for (int i = 0; i < list.size(); i++) {
                    elements.add(list.isNull(i) ? null : value(list.get(i)));
                }
                yield elements;
            }
            case PqStruct struct -> values(struct);
            case PqMap map -> {
                Map<String, @Nullable Object> entries = new LinkedHashMap<>();
                for (PqMap.Entry e : map.getEntries()) {
                    entries.put(String.valueOf(value(e.getKey())), e.isValueNull() ? null : value(e.getValue()));
                }
                yield entries;
            }
            default -> value.toString();
        };
    }
}
