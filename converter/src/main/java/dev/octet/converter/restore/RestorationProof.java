package dev.octet.converter.restore;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.data.Batch;
import dev.octet.converter.runtime.InstrumentedModel;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * Runs the file and the graph of the restored checkpoint on the same random inputs in ONNX Runtime and compares the outputs.
 *
 * @param error largest difference of an output, relative to the largest magnitude in the output
 * @param runs number of compared inputs
 * @param tolerance largest allowed error
 */
public record RestorationProof(double error, int runs, double tolerance) {
    /** For models that compute in F32 in different orders; with twelve layers they differ by 1e-6. */
    private static final double F32_TOLERANCE = 1e-4;
    /** For a file that rounds results to 8 or 11 bits, while the checkpoint's graph computes in F32. */
    private static final double NARROW_TOLERANCE = 3e-2;

    private static final int SHORT = 7;
    private static final int LONG = 24;
    /** Inputs exceed windows up to this length. */
    private static final int LONGEST = 600;

    private static final long SEED = 6;

    /**
     * Runs both models.
     *
     * @param where the ONNX file, for messages
     * @param source its graph, unchanged if ONNX Runtime can run it
     * @param twin the checkpoint's graph in standard operators
     * @param outputs of the file, by the twin's name
     * @param config of the checkpoint
     * @throws UnsupportedModelException when they differ by more than rounding
     */
    public static RestorationProof of(
            String where, GraphModel source, GraphModel twin, Map<String, String> outputs, ObjectNode config)
            throws IOException {
        double tolerance = isNarrow(source.graph()) ? NARROW_TOLERANCE : F32_TOLERANCE;
        SessionSettings settings = SessionSettings.defaults();
        double error = 0;
        ObjectNode texts = config.path("text_config") instanceof ObjectNode own ? own : config;
        List<Integer> lengths = lengths(source.graph(), texts);
        try (InstrumentedModel a = InstrumentedModel.open(source, outputs.values(), settings);
                InstrumentedModel b = InstrumentedModel.open(twin, outputs.keySet(), settings)) {
            for (int run = 0; run < lengths.size(); run++) {
                try (Arena arena = Arena.ofShared()) {
                    Inputs inputs = new Inputs(source.graph(), twin.graph(), texts, lengths.get(run), run > 0, arena);
                    try (OnnxRuntimeSession.Outputs mine = a.run(inputs.of(source.graph()));
                            OnnxRuntimeSession.Outputs others = b.run(inputs.of(twin.graph()))) {
                        for (Map.Entry<String, String> output : outputs.entrySet()) {
                            Tensor x = mine.read(output.getValue());
                            Tensor y = others.read(output.getKey());
                            long row = perToken(twin.graph(), output.getKey(), y);
                            error = Math.max(error, check(output.getValue(), x, y, row, inputs, tolerance, where));
                        }
                    }
                }
            }
        }
        return new RestorationProof(error, lengths.size(), tolerance);
    }

    /** Elements that an output has for each token of the input; 0 where it has none for single tokens. */
    private static long perToken(Graph twin, String output, Tensor value) {
        Optional<Dim> tokens = sequence(twin.inputs(), OnnxInputs.TOKENS);
        return tokens.isPresent() && tokens.equals(sequence(twin.outputs(), output))
                ? value.shape().elementCount()
                        / (value.shape().dim(0) * value.shape().dim(1))
                : 0;
    }

    /** The second axis of an input or output. */
    private static Optional<Dim> sequence(List<ValueInfo> values, String name) {
        return values.stream()
                .filter(v -> v.name().equals(name))
                .map(OnnxInputs::dims)
                .filter(dims -> dims.size() > 1)
                .map(dims -> dims.get(1))
                .findFirst();
    }

    /** @param row elements of the output for each token; 0 for none */
    private static double check(
            String name, Tensor x, Tensor y, long row, Inputs inputs, double tolerance, String where) {
        if (!x.shape().equals(y.shape())) {
            throw refused(
                    "output '" + name + "' of the file has shape " + x.shape() + ", that of the checkpoint "
                            + y.shape(),
                    where);
        }
        double difference = 0;
        double largest = 0;
        float[] p = x.toFloats();
        float[] q = y.toFloats();
        for (int i = 0; i < p.length; i++) {
            if (row > 0 && !inputs.counts(i / row)) {
                continue; // values at padding are irrelevant, and exporters differ there
            }
            largest = Math.max(largest, Math.abs((double) p[i]));
            double d = Math.abs((double) p[i] - q[i]);
            difference = d <= difference ? difference : d; // NaN counts as a difference
        }
        double error = largest == 0 ? difference : difference / largest;
        if (!(error <= tolerance)) {
            throw refused(
                    String.format(
                            "output '%s' of the checkpoint differs from the file's by %.2g of its largest number;"
                                    + " rounding explains at most %.0e",
                            name, error, tolerance),
                    where);
        }
        return error;
    }

    private static UnsupportedModelException refused(String what, String where) {
        return new UnsupportedModelException(
                "the graph has the structure of a known architecture but computes something else: " + what,
                where,
                "nothing was written. The structure does not show masks, windows and moves of heads; export the model"
                        + " with the attention of transformers, or give its config.json with --config");
    }

    private static boolean isNarrow(Graph graph) {
        return graph.initializers().values().stream()
                .flatMap(i -> i.tensor().stream())
                .anyMatch(t -> t.shape().rank() >= 1 && (t.dtype() == DType.F16 || t.dtype() == DType.BF16));
    }

    /** Two lengths, or twice the file's fixed length. */
    private static List<Integer> lengths(Graph graph, ObjectNode config) {
        for (ValueInfo input : graph.requiredInputs()) {
            List<Dim> dims = OnnxInputs.dims(input);
            if (dims.size() == 2 && dims.get(1).isKnown()) {
                int fixed = number(dims.get(1));
                return List.of(fixed, fixed);
            }
        }
        int longest = Stream.of("max_position_embeddings", "n_positions", "max_target_positions")
                .map(config::path)
                .filter(JsonNode::isIntegralNumber)
                .mapToInt(JsonNode::intValue)
                .findFirst()
                .orElse(LONGEST);
        int window = config.path("sliding_window").asInt(0);
        int wanted = window > 0 && window + LONG <= LONGEST ? window + LONG : LONG;
        return List.of(Math.min(SHORT, longest), Math.min(wanted, longest));
    }

    private static int number(Dim known) {
        return Math.toIntExact(Objects.requireNonNull(known.size()));
    }

    /** Random inputs of one run; the same for both models. */
    private static final class Inputs {
        private final Map<String, long[]> tokens = new LinkedHashMap<>();
        private final int batch;
        private final int length;
        private final long[] mask;
        private final Arena arena;
        private final SplittableRandom random = new SplittableRandom(SEED);
        /** Dimensions of the checkpoint's inputs, whose images have a size. */
        private final Map<String, List<Dim>> sizes = new LinkedHashMap<>();

        Inputs(Graph graph, Graph twin, ObjectNode config, int length, boolean padded, Arena arena) {
            twin.inputs().forEach(i -> sizes.put(i.name(), OnnxInputs.dims(i)));
            this.length = length;
            this.arena = arena;
            batch = batch(graph);
            mask = new long[batch * length];
            long[] ids = new long[mask.length];
            long[] types = new long[mask.length];
            long[] positions = new long[mask.length];
            boolean typed =
                    graph.requiredInputs().stream().anyMatch(i -> i.name().equals(OnnxInputs.TYPES));
            for (int i = 0; i < mask.length; i++) {
                int place = i % length;
                mask[i] = padded && place >= length - length / 3 ? 0 : 1;
                ids[i] = random.nextInt(Math.max(1, config.path("vocab_size").asInt(1)));
                types[i] = typed ? random.nextInt(config.path("type_vocab_size").asInt(2)) : 0;
                positions[i] = place;
            }
            boolean masked =
                    graph.requiredInputs().stream().anyMatch(i -> i.name().equals(OnnxInputs.MASK));
            if (!masked) {
                Arrays.fill(mask, 1);
            }
            tokens.put(OnnxInputs.TOKENS, ids);
            tokens.put(OnnxInputs.TARGETS, ids);
            tokens.put(OnnxInputs.MASK, mask);
            tokens.put(OnnxInputs.TYPES, types);
            tokens.put(OnnxInputs.POSITIONS, positions);
        }

        /** The file's fixed batch size, else 1: some exports of rotary embeddings take no more. */
        private static int batch(Graph graph) {
            for (ValueInfo input : graph.requiredInputs()) {
                List<Dim> dims = OnnxInputs.dims(input);
                if (!dims.isEmpty() && dims.getFirst().isKnown()) {
                    return number(dims.getFirst());
                }
            }
            return 1;
        }

        /** Whether token {@code i} of the batch is not padding. */
        boolean counts(long i) {
            return i >= mask.length || mask[(int) i] == 1;
        }

        Batch of(Graph graph) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            for (ValueInfo input : graph.requiredInputs()) {
                if (input.type() instanceof TensorType t) {
                    tensors.put(input.name(), tensor(input.name(), t));
                }
            }
            return new Batch(0, batch, tensors);
        }

        private Tensor tensor(String name, TensorType type) {
            long[] values = tokens.get(name);
            if (name.equals(MergedDecoder.CONDITION)) { // false
                return Tensor.allocate(arena, new TensorSpec(name, DType.BOOL, Shape.of(1)));
            }
            if (OnnxInputs.isPast(name)) {
                DType dtype = Objects.requireNonNullElse(type.dtype(), DType.F32);
                return Tensor.allocate(arena, new TensorSpec(name, dtype, Shape.of(past(type))));
            }
            if (values == null) {
                return pixels(name, type);
            }
            DType dtype = Objects.requireNonNullElse(type.dtype(), DType.I64);
            Tensor t = Tensor.allocate(arena, new TensorSpec(name, dtype, Shape.of(batch, length)));
            for (int i = 0; i < values.length; i++) {
                switch (dtype) {
                    case I64 -> t.bytes().set(Tensor.I64_LE, 8L * i, values[i]);
                    case I32 -> t.bytes().set(Tensor.I32_LE, 4L * i, (int) values[i]);
                    case F32 -> t.bytes().set(Tensor.F32_LE, 4L * i, (float) values[i]);
                    default ->
                        throw new UnsupportedModelException(
                                "the input '" + name + "' is " + dtype,
                                "graph input '" + name + "'",
                                "export it as I64, I32 or F32");
                }
            }
            return t;
        }

        /** A cache of no tokens. */
        private long[] past(TensorType type) {
            long[] dims = Objects.requireNonNull(type.dims()).stream()
                    .mapToLong(d -> d.isKnown() ? number(d) : 0)
                    .toArray();
            dims[0] = batch;
            return dims;
        }

        private Tensor pixels(String name, TensorType type) {
            List<Long> dims = new ArrayList<>(List.of((long) batch));
            List<Dim> own = Objects.requireNonNull(type.dims());
            List<Dim> known = sizes.getOrDefault(name, own);
            for (int i = 1; i < own.size(); i++) {
                dims.add((long) number(own.get(i).isKnown() || i >= known.size() ? own.get(i) : known.get(i)));
            }
            Shape shape = Shape.of(dims.stream().mapToLong(Long::longValue).toArray());
            SplittableRandom same = new SplittableRandom(SEED + length);
            float[] values = new float[Math.toIntExact(shape.elementCount())];
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) same.nextDouble(-2, 2);
            }
            return Tensor.ofFloats(arena, name, shape, values);
        }
    }
}
