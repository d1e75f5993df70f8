package dev.octet.trainer;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/** A classifier of two layers and 64 samples of three classes, small enough to train a thousand steps in a second. */
final class SmallRun {
    static final int IN = 8;
    static final int HIDDEN = 16;
    static final int CLASSES = 3;
    static final int SAMPLES = 64;
    static final Set<String> PARAMETERS = Set.of("w1", "b1", "w2", "b2");
    static final String CONFIG = """
        data: {train: made, shuffle: true}
        loss: {type: cross-entropy}
        batch_size: 8
        steps: 40
        optimizer: {type: adamw, lr: 0.01}
        schedule: {type: linear, warmup: 4}
        clip_grad_norm: 1.0
        """;

    private SmallRun() {}

    /** A normal distribution, rounded so that a bug is easier to see. */
    private static float[] normal(SplittableRandom random, int n, double deviation) {
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            double sum = -6;
            for (int k = 0; k < 12; k++) {
                sum += random.nextDouble();
            }
            x[i] = (float) (sum * deviation);
        }
        return x;
    }

    private static Tensor tensor(SplittableRandom random, String name, double deviation, long... dims) {
        Shape shape = Shape.of(dims);
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, normal(random, (int) shape.elementCount(), deviation));
    }

    private static GraphModel model(Dim batch, int hidden, long seed, float dropout) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Tensor> weights = List.of(
                tensor(random, "w1", 0.3, IN, hidden),
                tensor(random, "b1", 0.1, hidden),
                tensor(random, "w2", 0.3, CLASSES, hidden),
                tensor(random, "b2", 0.1, CLASSES));
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of("first", "Linear", Node.OCTET_DOMAIN, List.of("x", "w1", "b1"), List.of("h")),
                Node.of("act", "Gelu", List.of("h"), List.of("a")),
                Node.of(
                        "second",
                        "Linear",
                        Node.OCTET_DOMAIN,
                        List.of(dropout == 0 ? "a" : "kept", "w2", "b2"),
                        List.of("logits"),
                        Attribute.of("transB", 1))));
        if (dropout > 0) {
            nodes.add(
                    2,
                    Node.of(
                            "drop",
                            "Dropout",
                            Node.OCTET_DOMAIN,
                            List.of("a"),
                            List.of("kept"),
                            Attribute.of(Dropout.RATIO, dropout),
                            Attribute.of(Dropout.SEED, 7)));
        }
        Graph graph = Graph.of(
                "small",
                nodes,
                weights.stream().map(Initializer::of).toList(),
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(batch, Dim.of(IN))))),
                List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(batch, Dim.of(CLASSES))))));
        return GraphModel.of(graph, 10, 21);
    }

    static GraphSource source(int hidden) {
        return source(hidden, 1, 0);
    }

    private static GraphSource source(int hidden, long seed, float dropout) {
        return new GraphSource(
                model(Dim.of("batch"), hidden, seed, dropout),
                (graph, sizes) -> at(graph, Dim.of(sizes.getOrDefault("batch", 1L))));
    }

    /** A graph with a number of samples; what was put into it stays. */
    private static GraphModel at(GraphModel graph, Dim batch) {
        GraphEdit edit = GraphEdit.of(graph.graph());
        edit.setInputs(List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(batch, Dim.of(IN))))));
        edit.setOutputs(List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(batch, Dim.of(CLASSES))))));
        return graph.withGraph(edit.build());
    }

    /** The parts with a teacher that is wider than the student and has other weights. */
    static TrainingParts taught(String yaml) {
        TrainingParts parts = parts(yaml);
        return new TrainingParts(
                parts.config(),
                parts.model(),
                Optional.of(source(2 * HIDDEN, 2, 0)),
                parts.train(),
                parts.eval(),
                Map.of("model", "abc", "teacher", "def"));
    }

    /** The parts of a classifier that drops a third of what is hidden. */
    static TrainingParts dropping(String yaml) {
        TrainingParts parts = parts(yaml);
        return new TrainingParts(
                parts.config(),
                source(HIDDEN, 1, 0.3f),
                Optional.empty(),
                parts.train(),
                parts.eval(),
                Map.of("model", "abc"));
    }

    /** Samples around a centre for each class. */
    static Samples samples(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[][] centres = new float[CLASSES][];
        for (int c = 0; c < CLASSES; c++) {
            centres[c] = normal(new SplittableRandom(100 + c), IN, 1);
        }
        float[][] x = new float[SAMPLES][];
        for (int i = 0; i < SAMPLES; i++) {
            x[i] = normal(random, IN, 0.7);
            for (int k = 0; k < IN; k++) {
                x[i][k] += centres[i % CLASSES][k];
            }
        }
        return new Made(x, "made-" + seed);
    }

    private static final class Made implements Samples {
        private final float[][] x;
        private final String digest;

        Made(float[][] x, String digest) {
            this.x = x;
            this.digest = digest;
        }

        @Override
        public String digest() {
            return digest;
        }

        @Override
        public String name() {
            return "made";
        }

        @Override
        public long count() {
            return x.length;
        }

        @Override
        public Map<String, Tensor> gather(long[] rows, Arena arena) {
            float[] all = new float[rows.length * IN];
            long[] labels = new long[rows.length];
            for (int i = 0; i < rows.length; i++) {
                System.arraycopy(x[(int) rows[i]], 0, all, i * IN, IN);
                labels[i] = rows[i] % CLASSES;
            }
            return Map.of(
                    "x", Tensor.ofFloats(arena, "x", Shape.of(rows.length, IN), all),
                    "labels", Tensor.ofLongs(arena, "labels", Shape.of(rows.length), labels));
        }

        @Override
        public void close() {}
    }

    /** The same with a sample that is no number. */
    static Samples spoiled(Samples samples) {
        return new ForwardedSamples(samples) {
            @Override
            public String digest() {
                return "spoiled";
            }

            @Override
            public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
                Map<String, Tensor> tensors = super.gather(rows, arena);
                for (int i = 0; i < rows.length; i++) {
                    if (rows[i] == 5) {
                        Objects.requireNonNull(tensors.get("x"))
                                .bytes()
                                .set(Tensor.F32_LE, (long) Float.BYTES * i * IN, Float.NaN);
                    }
                }
                return tensors;
            }
        };
    }

    static TrainingConfig config(String yaml) {
        return TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("runs"));
    }

    /** Key and value added to, or put in the place of, a line of {@link #CONFIG}. */
    static String with(String... lines) {
        StringBuilder yaml = new StringBuilder();
        for (String line : CONFIG.lines().toList()) {
            String key = line.substring(0, line.indexOf(':') + 1);
            if (Arrays.stream(lines).noneMatch(l -> l.startsWith(key))) {
                yaml.append(line).append('\n');
            }
        }
        return yaml.append(String.join("\n", lines)).append('\n').toString();
    }

    static TrainingParts parts(String yaml) {
        TrainingConfig config = config(yaml);
        return new TrainingParts(
                config,
                source(HIDDEN),
                Optional.empty(),
                samples(5),
                config.data().eval().map(e -> samples(6)),
                Map.of("model", "abc"));
    }

    /** Samples of which some are multiplied. */
    private record Planted(Samples samples, Set<Long> rows, float factor) implements Samples {
        @Override
        public String digest() {
            return "planted";
        }

        @Override
        public String name() {
            return "planted";
        }

        @Override
        public long count() {
            return samples.count();
        }

        @Override
        public Map<String, Tensor> gather(long[] all, Arena arena) throws IOException {
            Map<String, Tensor> tensors = samples.gather(all, arena);
            Tensor x = Objects.requireNonNull(tensors.get("x"));
            for (int i = 0; i < all.length; i++) {
                for (int k = 0; rows.contains(all[i]) && k < IN; k++) {
                    long at = (long) i * IN + k;
                    x.bytes().setAtIndex(Tensor.F32_LE, at, factor * x.bytes().getAtIndex(Tensor.F32_LE, at));
                }
            }
            return tensors;
        }

        @Override
        public void close() throws IOException {
            samples.close();
        }
    }

    /** The parts with samples of which some are multiplied. */
    static TrainingParts planted(String yaml, float factor, Long... rows) {
        TrainingParts parts = parts(yaml);
        return new TrainingParts(
                parts.config(),
                parts.model(),
                parts.teacher(),
                new Planted(parts.train(), Set.of(rows), factor),
                parts.eval(),
                parts.inputs());
    }
}
