package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import dev.octet.spark.table.TensorRow;
import dev.octet.spark.table.TensorRows;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** A checkpoint as a table. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class TensorTableTest {
    private static final String WEIGHT = "model.layers.0.mlp.up_proj.weight";

    @TempDir
    private static Path shared;

    private static SparkSession session;
    private static Path model;

    @BeforeAll
    static void start() throws IOException {
        model = shared.resolve("block");
        Quantize.run(
                Quantize.CheckpointRequest.of(ShardedModel.make(shared.resolve("model")), model, Recipes.FP8_BLOCK),
                Job.defaults());
        session = SparkSession.builder().config(SparkContexts.conf("local[2]")).getOrCreate();
    }

    @AfterAll
    static void stop() {
        session.stop();
    }

    private static Dataset<Row> table() {
        return session.read().format("octet").load(model.toString());
    }

    @Test
    void sql_counts_tensors_and_bytes_by_type() throws IOException {
        table().createOrReplaceTempView("tensors");
        try (CheckpointConverter converter = CheckpointConverter.open(model)) {
            List<Row> rows =
                    session.sql("SELECT count(*), sum(bytes) FROM tensors").collectAsList();
            assertEquals(
                    converter.checkpoint().tensors().size(), rows.getFirst().getLong(0));
            assertEquals(
                    converter.checkpoint().tensors().values().stream()
                            .mapToLong(t -> t.spec().byteSize())
                            .sum(),
                    rows.getFirst().getLong(1));
            Row codes = session.sql("SELECT count(*) FROM tensors WHERE role = 'codes' AND dtype = 'F8_E4M3FN'")
                    .first();
            assertEquals(converter.stored().weights().size(), codes.getLong(0));
        }
    }

    @Test
    void a_row_says_what_a_tensor_is() {
        Row row = table().filter("name = '" + WEIGHT + "'").first();
        assertEquals("F8_E4M3FN", row.getString(row.fieldIndex("dtype")));
        assertEquals(2, row.getList(row.fieldIndex("shape")).size());
        assertEquals("E4M3FN per 128 x 128, scale F32", row.getString(row.fieldIndex("form")));
        Row scale =
                table().filter("weight = '" + WEIGHT + "' AND role = 'scale'").first();
        assertEquals(WEIGHT + "_scale_inv", scale.getString(scale.fieldIndex("name")));
        assertTrue(scale.isNullAt(scale.fieldIndex("scale_mean")), "scales are those of codes");
    }

    @Test
    void the_scales_of_a_row_are_those_that_a_reader_multiplies_by() throws IOException {
        Row row = table().select("scale_count", "scale_min", "scale_max", "scale_mean", "name")
                .filter("name = '" + WEIGHT + "'")
                .first();
        try (CheckpointConverter converter = CheckpointConverter.open(model);
                Arena arena = Arena.ofConfined()) {
            WeightReader reader = WeightReader.of(converter.checkpoint(), converter.stored());
            long count = reader.scaleCount(WEIGHT);
            MemorySegment scales = arena.allocate(count * Float.BYTES);
            reader.readScales(WEIGHT, 0, count, scales);
            double min = Double.MAX_VALUE;
            double max = 0;
            double sum = 0;
            for (long i = 0; i < count; i++) {
                float scale = scales.get(Tensor.F32_LE, i * Float.BYTES);
                min = Math.min(min, scale);
                max = Math.max(max, scale);
                sum += scale;
            }
            assertEquals(count, row.getLong(0));
            assertEquals(min, row.getDouble(1));
            assertEquals(max, row.getDouble(2));
            assertEquals(sum / count, row.getDouble(3));
        }
    }

    @Test
    void a_query_without_scales_is_one_task_and_one_with_them_a_task_for_each_file() {
        assertEquals(1, table().select("name").javaRDD().getNumPartitions());
        assertEquals(
                ShardedModel.SHARDS,
                table().select("name", "scale_max").javaRDD().getNumPartitions());
    }

    @Test
    void an_rdd_has_the_same_rows() throws IOException {
        JavaSparkContext spark = JavaSparkContext.fromSparkContext(session.sparkContext());
        List<TensorRow> rows = TensorRows.of(spark, model.toString()).collect();
        assertEquals(table().count(), rows.size());
        TensorRow row =
                rows.stream().filter(r -> r.name().equals(WEIGHT)).findFirst().orElseThrow();
        assertEquals(TensorRow.Role.CODES, row.role());
        assertTrue(row.scales() != null && row.scales().max() >= row.scales().min());
    }
}
