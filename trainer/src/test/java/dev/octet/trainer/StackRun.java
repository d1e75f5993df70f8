package dev.octet.trainer;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.step.GraphSource;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.function.BiConsumer;
import java.util.function.BinaryOperator;

/**
 * A classifier of residual blocks as in a transformer without attention: {@code h += down(gelu(up(norm(h))))}. Large enough for statistics
 * of rounding errors, small enough to replay twenty times in a few seconds.
 */
final class StackRun {
    static final int IN = 32;
    static final int WIDTH = 32;
    static final int CLASSES = 8;
    static final int BATCH = 32;
    static final int SAMPLES = 256;

    /** Width of {@link #wide}: blocks of 128 x 128 lie in a grid. */
    static final int WIDE = 256;

    static final String CONFIG = """
        data: {train: made, shuffle: false}
        loss: {type: cross-entropy}
        batch_size: 32
        steps: 100
        optimizer: {type: adamw, lr: 0.002}
        clip_grad_norm: 1.0
        """;

    private final int blocks;
    private final int width;
    private BiConsumer<String, float[]> weights = (name, w) -> {};
    private BiConsumer<Long, float[]> rows = (row, x) -> {};
    private BinaryOperator<Long> labels = (row, label) -> label;
    private String yaml = CONFIG;

    private StackRun(int blocks, int width) {
        this.blocks = blocks;
        this.width = width;
    }

    static StackRun of(int blocks) {
        return new StackRun(blocks, WIDTH);
    }

    static StackRun wide(int blocks) {
        return new StackRun(blocks, WIDE);
    }

    /** Takes micro-batches of another size. */
    StackRun batch(int size) {
        yaml = yaml.replace("batch_size: 32", "batch_size: " + size);
        return this;
    }

    /** Damages weights: called with each weight's name and elements. */
    StackRun weights(BiConsumer<String, float[]> damage) {
        weights = damage;
        return this;
    }

    /** Damages data: called with each sample's number and features. */
    StackRun rows(BiConsumer<Long, float[]> damage) {
        rows = damage;
        return this;
    }

    /** Damages labels: from a sample's number and label to the label it gets. */
    StackRun labels(BinaryOperator<Long> damage) {
        labels = damage;
        return this;
    }

    /** More lines of the configuration. */
    StackRun with(String... lines) {
        yaml = yaml + String.join("\n", lines) + "\n";
        return this;
    }

    TrainingParts parts() {
        return new TrainingParts(
                SmallRun.config(yaml),
                new GraphSource(model(), (graph, sizes) -> model()),
                Optional.empty(),
                new Made(),
                Optional.empty(),
                Map.of("model", "stack"));
    }

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

    private GraphModel model() {
        SplittableRandom random = new SplittableRandom(11);
        List<Tensor> all = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        linear(nodes, all, random, "in", "x", "h0", width, IN);
        String h = "h0";
        for (int i = 0; i < blocks; i++) {
            String b = "blocks." + i;
            norm(nodes, all, b + ".norm", h, b + ".n");
            linear(nodes, all, random, b + ".up", b + ".n", b + ".u", 2 * width, width);
            nodes.add(Node.of(b + ".act", "Gelu", List.of(b + ".u"), List.of(b + ".a")));
            linear(nodes, all, random, b + ".down", b + ".a", b + ".d", width, 2 * width);
            nodes.add(Node.of(b + ".add", "Add", List.of(h, b + ".d"), List.of("h" + (i + 1))));
            h = "h" + (i + 1);
        }
        norm(nodes, all, "norm", h, "n");
        linear(nodes, all, random, "head", "n", "logits", CLASSES, width);
        Graph graph = Graph.of(
                "stack",
                nodes,
                all.stream().map(Initializer::of).toList(),
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of(BATCH), Dim.of(IN))))),
                List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(Dim.of(BATCH), Dim.of(CLASSES))))));
        return GraphModel.of(graph, 10, 21);
    }

    private void linear(
            List<Node> nodes,
            List<Tensor> all,
            SplittableRandom random,
            String name,
            String x,
            String y,
            int out,
            int in) {
        add(all, name + ".weight", normal(random, out * in, 1 / Math.sqrt(in)), out, in);
        add(all, name + ".bias", normal(random, out, 0.1), out);
        nodes.add(Node.of(
                name,
                "Linear",
                Node.OCTET_DOMAIN,
                List.of(x, name + ".weight", name + ".bias"),
                List.of(y),
                Attribute.of("transB", 1)));
    }

    private void norm(List<Node> nodes, List<Tensor> all, String name, String x, String y) {
        float[] ones = new float[width];
        Arrays.fill(ones, 1);
        add(all, name + ".weight", ones, width);
        add(all, name + ".bias", new float[width], width);
        nodes.add(Node.of(
                name,
                "LayerNormalization",
                List.of(x, name + ".weight", name + ".bias"),
                List.of(y),
                Attribute.of("axis", -1)));
    }

    private void add(List<Tensor> all, String name, float[] elements, long... dims) {
        weights.accept(name, elements);
        all.add(Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(dims), elements));
    }

    /** Samples around a centre for each class. */
    private final class Made implements Samples {
        private final float[][] x = new float[SAMPLES][];

        Made() {
            SplittableRandom random = new SplittableRandom(3);
            float[][] centres = new float[CLASSES][];
            for (int c = 0; c < CLASSES; c++) {
                centres[c] = normal(random, IN, 0.7);
            }
            for (int i = 0; i < SAMPLES; i++) {
                x[i] = normal(random, IN, 1);
                for (int k = 0; k < IN; k++) {
                    x[i][k] += centres[i % CLASSES][k];
                }
                rows.accept((long) i, x[i]);
            }
        }

        @Override
        public String digest() {
            return "made";
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
        public Map<String, Tensor> gather(long[] wanted, Arena arena) {
            float[] all = new float[wanted.length * IN];
            long[] labels = new long[wanted.length];
            for (int i = 0; i < wanted.length; i++) {
                System.arraycopy(x[(int) wanted[i]], 0, all, i * IN, IN);
                labels[i] = StackRun.this.labels.apply(wanted[i], wanted[i] % CLASSES);
            }
            return Map.of(
                    "x", Tensor.ofFloats(arena, "x", Shape.of(wanted.length, IN), all),
                    "labels", Tensor.ofLongs(arena, "labels", Shape.of(wanted.length), labels));
        }

        @Override
        public void close() {}
    }
}
