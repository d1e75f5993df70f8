package dev.octet.quant.cast;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/** A case of testdata/golden/tile, which numpy and ml_dtypes computed from the definitions; see testdata/make/tile_golden.py. */
record BlockGolden(JsonNode facts) {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "golden", "tile");

    /** All cases. */
    static Stream<BlockGolden> all() {
        try {
            List<BlockGolden> cases = new ArrayList<>();
            new ObjectMapper()
                    .readTree(FOLDER.resolve("index.json").toFile())
                    .forEach(facts -> cases.add(new BlockGolden(facts)));
            return cases.stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public String toString() {
        return text("matrix") + " " + scheme();
    }

    /** A field of its entry in index.json. */
    String text(String field) {
        return facts.path(field).asText();
    }

    String scheme() {
        return text("scheme");
    }

    QuantType codes() {
        return QuantType.valueOf(text("codes"));
    }

    /** The weight, in F32, BF16 or F16. */
    Tensor source(Arena arena) {
        return tensor(text("matrix"), "source", arena);
    }

    /** {@code codes}, {@code scale}, {@code multiplier}, {@code zero_point}. */
    Tensor tensor(String name, Arena arena) {
        return tensor(text("matrix") + "." + scheme(), name, arena);
    }

    private static Tensor tensor(String file, String name, Arena arena) {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve(file + ".safetensors"))) {
            StoredTensor stored = Objects.requireNonNull(checkpoint.tensor(name), name);
            return new Tensor(stored.spec(), checkpoint.read(stored, arena));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The sum over the dequantised values rounded to {@code type}, in hex. */
    String dequantised(DType type) {
        return facts.path("dequantised").path(type.name()).asText();
    }

    /** Rows and columns of one matrix of the weight; a scale for the whole weight counts all its matrices as one. */
    ScaleRuns tile() {
        JsonNode shape = facts.path("shape");
        int rank = shape.size();
        long cols = shape.path(rank - 1).asLong();
        long rows = shape.path(rank - 2).asLong();
        Granularity granularity = granularity();
        boolean whole = granularity instanceof Granularity.PerTensor;
        return Blocks.of(Shape.of(whole ? elements() / cols : rows, cols), granularity)
                .runs();
    }

    private Granularity granularity() {
        return switch (text("granularity")) {
            case "tensor" -> new Granularity.PerTensor();
            case "channel" -> new Granularity.PerChannel(-2);
            case "block" ->
                new Granularity.PerBlock(
                        facts.path("rows").asInt(), facts.path("cols").asInt());
            case "mx" -> new Granularity.Mx(facts.path("size").asInt());
            case "group" -> new Granularity.PerGroup(-1, facts.path("size").asInt());
            default -> throw new IllegalStateException(text("granularity"));
        };
    }

    private long elements() {
        long[] dims = new long[facts.path("shape").size()];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = facts.path("shape").path(i).asLong();
        }
        return Shape.of(dims).elementCount();
    }

    /** Number of matrices of the weight. */
    int tiles() {
        return Math.toIntExact(elements() / tile().elements());
    }

    /** Part {@code index} of {@link #tiles} equal parts of a segment. */
    MemorySegment part(MemorySegment all, int index) {
        long bytes = all.byteSize() / tiles();
        return all.asSlice(index * bytes, bytes);
    }
}
