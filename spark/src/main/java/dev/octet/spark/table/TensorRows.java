package dev.octet.spark.table;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.model.Shard;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.spark.hadoop.HadoopPaths;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/** Reads the tensors of checkpoints as rows. */
public final class TensorRows {
    private static final long SCALES_AT_A_TIME = 1 << 16;

    private TensorRows() {}

    /**
     * All tensors of a checkpoint with what their scales are like; a partition for each file.
     *
     * @param model a safetensors file, an index or a folder, in any file system that driver and executors reach
     * @throws OctetException when the checkpoint is malformed
     * @throws IOException when its headers cannot be read
     */
    public static JavaRDD<TensorRow> of(JavaSparkContext spark, String model) throws IOException {
        List<String> files = files(model, spark.hadoopConfiguration());
        SerializableConfiguration hadoop = new SerializableConfiguration(spark.hadoopConfiguration());
        return spark.parallelize(files, Math.max(1, files.size())).flatMap(file -> {
            try {
                return read(model, hadoop.value(), Optional.of(file), true).iterator();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    /** The files of a checkpoint with tensors. */
    static List<String> files(String model, Configuration hadoop) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(HadoopPaths.of(model, hadoop))) {
            return checkpoint.shards().stream().map(Shard::name).toList();
        }
    }

    /**
     * Reads rows.
     *
     * @param file of which file; empty for all
     * @param scales whether scales are read, too
     */
    static List<TensorRow> read(String model, Configuration hadoop, Optional<String> file, boolean scales)
            throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(HadoopPaths.of(model, hadoop))) {
            Checkpoint checkpoint = converter.checkpoint();
            Map<String, Part> parts = parts(converter.stored().weights().values());
            WeightReader reader = WeightReader.of(checkpoint, converter.stored());
            List<TensorRow> rows = new ArrayList<>();
            for (StoredTensor tensor : checkpoint.tensors().values()) {
                if (file.isEmpty() || tensor.shard().name().equals(file.get())) {
                    Part part = parts.get(tensor.spec().name());
                    StoredWeight coded = part != null && part.role() == TensorRow.Role.CODES ? part.weight() : null;
                    rows.add(new TensorRow(
                            tensor.spec().name(),
                            tensor.spec().dtype().name(),
                            dims(tensor.spec().shape()),
                            tensor.spec().byteSize(),
                            tensor.shard().name(),
                            part == null ? tensor.spec().name() : part.weight().name(),
                            part == null ? TensorRow.Role.PLAIN : part.role(),
                            coded == null ? null : coded.form(),
                            coded != null && scales ? spread(reader, coded) : null));
                }
            }
            return rows;
        }
    }

    private static List<Long> dims(Shape shape) {
        List<Long> dims = new ArrayList<>();
        for (int i = 0; i < shape.rank(); i++) {
            dims.add(shape.dim(i));
        }
        return dims;
    }

    private record Part(StoredWeight weight, TensorRow.Role role) {}

    private static Map<String, Part> parts(Iterable<StoredWeight> weights) {
        Map<String, Part> parts = new HashMap<>();
        for (StoredWeight weight : weights) {
            parts.put(weight.data().name(), new Part(weight, TensorRow.Role.CODES));
            put(parts, weight, spec(weight.scale()), TensorRow.Role.SCALE);
            put(parts, weight, spec(weight.globalScale()), TensorRow.Role.GLOBAL_SCALE);
            put(parts, weight, weight.zeroPoint(), TensorRow.Role.ZERO_POINT);
            put(parts, weight, spec(weight.inputScale()), TensorRow.Role.INPUT_SCALE);
            put(parts, weight, weight.shapeNumbers(), TensorRow.Role.SHAPE);
        }
        return parts;
    }

    private static @Nullable TensorSpec spec(@Nullable ScaleTensor scale) {
        return scale == null ? null : scale.spec();
    }

    private static void put(
            Map<String, Part> parts, StoredWeight weight, @Nullable TensorSpec tensor, TensorRow.Role role) {
        if (tensor != null) {
            parts.putIfAbsent(tensor.name(), new Part(weight, role));
        }
    }

    private static TensorRow.@Nullable ScaleSpread spread(WeightReader reader, StoredWeight weight) throws IOException {
        if (weight.scale() == null || weight.unread() != null) {
            return null;
        }
        double min = Double.POSITIVE_INFINITY;
        double max = 0;
        double sum = 0;
        try (Arena arena = Arena.ofConfined()) {
            long count = reader.scaleCount(weight.name());
            MemorySegment some = arena.allocate(Math.max(1, Math.min(count, SCALES_AT_A_TIME)) * Float.BYTES);
            for (long from = 0; from < count; from += SCALES_AT_A_TIME) {
                long to = Math.min(count, from + SCALES_AT_A_TIME);
                reader.readScales(weight.name(), from, to, some.asSlice(0, (to - from) * Float.BYTES));
                for (long i = 0; i < to - from; i++) {
                    float scale = some.get(Tensor.F32_LE, i * Float.BYTES);
                    min = Math.min(min, scale);
                    max = Math.max(max, scale);
                    sum += scale;
                }
            }
            return count == 0 ? null : new TensorRow.ScaleSpread(count, min, max, sum / count);
        } catch (OctetException e) {
            return null; // `octet verify` says what is wrong with them; a listing goes on
        }
    }
}
