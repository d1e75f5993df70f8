package dev.octet.spark.table;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/** The table of a checkpoint. A query without columns of scales reads headers alone, in one task; others take a task for each file. */
record TensorTable(String model) implements SupportsRead {
    @Override
    public String name() {
        return "octet `" + model + '`';
    }

    @Override
    @SuppressWarnings("deprecation") // the successor has it call this one
    public StructType schema() {
        return TensorColumn.SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new Pruned(model);
    }

    private static final class Pruned implements ScanBuilder, SupportsPushDownRequiredColumns {
        private final String model;
        private StructType wanted = TensorColumn.SCHEMA;

        Pruned(String model) {
            this.model = model;
        }

        @Override
        public void pruneColumns(StructType requiredSchema) {
            wanted = requiredSchema;
        }

        @Override
        public Scan build() {
            return new TensorScan(model, wanted);
        }
    }

    private record TensorScan(String model, StructType readSchema) implements Scan, Batch {
        private List<String> columns() {
            return List.of(readSchema.fieldNames());
        }

        private boolean readsScales() {
            return TensorColumn.named(columns()).stream().anyMatch(TensorColumn::isOfScales);
        }

        @Override
        public String description() {
            return "octet " + model + (readsScales() ? " with its scales" : "");
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public InputPartition[] planInputPartitions() {
            if (!readsScales()) {
                return new InputPartition[] {new FilePartition(null)};
            }
            try {
                return TensorRows.files(
                                model, SparkSession.active().sparkContext().hadoopConfiguration())
                        .stream()
                        .map(FilePartition::new)
                        .toArray(InputPartition[]::new);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers(
                    model,
                    columns(),
                    new SerializableConfiguration(
                            SparkSession.active().sparkContext().hadoopConfiguration()));
        }
    }

    /** One file; null for all. */
    private record FilePartition(@Nullable String file) implements InputPartition {}

    private record Readers(String model, List<String> names, SerializableConfiguration hadoop)
            implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            List<TensorColumn> columns = TensorColumn.named(names);
            boolean scales = columns.stream().anyMatch(TensorColumn::isOfScales);
            try {
                return new Reader(
                        TensorRows.read(
                                        model,
                                        hadoop.value(),
                                        Optional.ofNullable(((FilePartition) partition).file()),
                                        scales)
                                .iterator(),
                        columns);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private final Iterator<TensorRow> rows;
        private final List<TensorColumn> columns;
        private InternalRow row = new GenericInternalRow(0);

        Reader(Iterator<TensorRow> rows, List<TensorColumn> columns) {
            this.rows = rows;
            this.columns = columns;
        }

        @Override
        public boolean next() {
            if (!rows.hasNext()) {
                return false;
            }
            TensorRow next = rows.next();
            @Nullable Object[] values = new Object[columns.size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = columns.get(i).of(next);
            }
            row = new GenericInternalRow(values);
            return true;
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public void close() {
            // the rows are in memory
        }
    }
}
