package dev.octet.converter.evaluate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.runtime.TestModels;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class EvaluationTest {
    private static final int SAMPLES = 20;
    private static final int LENGTH = 5;

    @TempDir
    Path folder;

    private Path npz;
    private Path reference;

    @BeforeEach
    void write_model_and_data() throws IOException {
        npz = TestModels.data(folder.resolve("data.npz"), SAMPLES, LENGTH, 1);
        reference = write("reference.onnx", 0);
    }

    private Path write(String name, float bias) throws IOException {
        Path path = folder.resolve(name);
        OnnxWriter.write(TestModels.doubling(bias), path);
        return path;
    }

    private ModelComparison compare(Path candidate, int batch) throws IOException {
        try (Dataset d = NpzDataset.open(npz, InputSpec.of(TestModels.doubling(0)))) {
            return Evaluation.compare(
                    reference, candidate, d, EvaluationOptions.defaults().withBatchSize(batch));
        }
    }

    @Test
    void a_model_is_equal_to_itself_also_where_padding_holds_nan() throws IOException {
        ModelComparison c = compare(reference, 3);
        assertEquals(SAMPLES, c.samples());
        OutputComparison out = c.outputs().getFirst();
        assertEquals(new OutputComparison("out", SAMPLES, 1, 1, Double.POSITIVE_INFINITY, 0, Double.NaN), rounded(out));
        EmbeddingComparison e = c.embedding();
        assertNotNull(e);
        assertEquals("out", e.output());
        assertEquals(4, e.size());
        assertEquals(SAMPLES, e.samples());
        assertEquals(1, e.cosineMin(), 1e-6);
        assertEquals(1, e.spearman(), 1e-12);
        assertEquals(0, e.maxSimilarityDifference());
        assertEquals(List.of(), c.notCompared());
    }

    private static OutputComparison rounded(OutputComparison o) {
        return new OutputComparison(
                o.output(),
                o.samples(),
                Math.rint(o.cosineMean() * 1e9) / 1e9,
                Math.rint(o.cosineMin() * 1e9) / 1e9,
                o.sqnrDb(),
                o.maxAbsDifference(),
                o.top1Agreement());
    }

    /** The candidate adds 0.5 to the first of four elements of each token; everything else follows from the samples. */
    @Test
    void the_measures_are_those_of_their_definitions() throws IOException {
        float[] x = TestModels.expected(SAMPLES, LENGTH, 1);
        double signal = 0;
        for (float v : x) {
            signal += (double) v * v;
        }
        double noise = x.length / 4.0 * 0.25;
        double cosineSum = 0;
        double cosineMin = 1;
        double[][] a = new double[SAMPLES][];
        double[][] b = new double[SAMPLES][];
        for (int i = 0, at = 0; i < SAMPLES; i++) {
            int tokens = 1 + i % LENGTH;
            double[] p = new double[tokens * 4];
            double[] q = new double[tokens * 4];
            a[i] = new double[4];
            b[i] = new double[4];
            for (int k = 0; k < p.length; k++, at++) {
                p[k] = x[at];
                q[k] = x[at] + (k % 4 == 0 ? 0.5 : 0);
                a[i][k % 4] += p[k];
                b[i][k % 4] += q[k];
            }
            double cosine = cosine(p, q);
            cosineSum += cosine;
            cosineMin = Math.min(cosineMin, cosine);
        }
        for (int batch : new int[] {1, 3, 64}) {
            ModelComparison c = compare(write("candidate.onnx", 0.5f), batch);
            OutputComparison out = c.outputs().getFirst();
            assertEquals(cosineSum / SAMPLES, out.cosineMean(), 1e-6);
            assertEquals(cosineMin, out.cosineMin(), 1e-6);
            assertEquals(10 * Math.log10(signal / noise), out.sqnrDb(), 1e-4);
            assertEquals(0.5, out.maxAbsDifference(), 1e-6);
            EmbeddingComparison e = c.embedding();
            assertNotNull(e);
            double sum = 0;
            for (int i = 0; i < SAMPLES; i++) {
                sum += cosine(a[i], b[i]);
            }
            assertEquals(sum / SAMPLES, e.cosineMean(), 1e-6);
            assertEquals(spearmanOfPairs(a, b), e.spearman(), 1e-6);
        }
    }

    private static double spearmanOfPairs(double[][] a, double[][] b) {
        double[] x = new double[SAMPLES * (SAMPLES - 1) / 2];
        double[] y = new double[x.length];
        int p = 0;
        for (int i = 0; i < SAMPLES; i++) {
            for (int j = 0; j < i; j++) {
                x[p] = cosine(a[i], a[j]);
                y[p] = cosine(b[i], b[j]);
                p++;
            }
        }
        // Without ties: 1 - 6 sum d^2 / n (n^2 - 1), ranks by counting
        double d2 = 0;
        for (int i = 0; i < p; i++) {
            int rx = 0;
            int ry = 0;
            for (int j = 0; j < p; j++) {
                rx += x[j] < x[i] ? 1 : 0;
                ry += y[j] < y[i] ? 1 : 0;
            }
            d2 += (double) (rx - ry) * (rx - ry);
        }
        return 1 - 6 * d2 / ((double) p * ((double) p * p - 1));
    }

    private static double cosine(double[] x, double[] y) {
        double xy = 0;
        double xx = 0;
        double yy = 0;
        for (int i = 0; i < x.length; i++) {
            xy += x[i] * y[i];
            xx += x[i] * x[i];
            yy += y[i] * y[i];
        }
        return xy / Math.sqrt(xx * yy);
    }

    @Test
    void values_inside_two_models_are_compared_in_pairs_without_padding() throws IOException {
        GraphModel a = TestModels.doubling(0);
        GraphModel b = TestModels.doubling(0.5f);
        try (Dataset d = NpzDataset.open(npz, InputSpec.of(a))) {
            Map<String, String> pairs = new LinkedHashMap<>();
            pairs.put("doubled", "doubled");
            pairs.put("out", "out");
            List<LayerComparison> layers = Evaluation.compareLayers(
                    a, b, pairs, d, EvaluationOptions.defaults().withBatchSize(7));
            long elements = TestModels.expected(SAMPLES, LENGTH, 1).length;
            assertEquals(
                    new LayerComparison("doubled", "doubled", elements, Double.POSITIVE_INFINITY, 0), layers.get(0));
            assertEquals(elements, layers.get(1).elements());
            assertEquals(0.5, layers.get(1).maxAbsDifference(), 1e-6);
            assertEquals(
                    compare(write("b.onnx", 0.5f), 7).outputs().getFirst().sqnrDb(),
                    layers.get(1).sqnrDb(),
                    1e-9);
            assertEquals(List.of(), Evaluation.compareLayers(a, b, Map.of(), d, EvaluationOptions.defaults()));
        }
    }

    @Test
    void models_without_a_common_output_are_not_compared() throws IOException {
        GraphModel m = TestModels.doubling(0);
        var edit = GraphEdit.of(m.graph());
        edit.setOutputs(
                List.of(new ValueInfo("doubled", m.graph().outputs().getFirst().type())));
        Path other = folder.resolve("other.onnx");
        OnnxWriter.write(m.withGraph(edit.build()), other);
        assertTrue(assertThrows(InvalidDataException.class, () -> compare(other, 3))
                .what()
                .contains("no output in common"));
    }

    @Test
    void ranks_of_equal_values_are_shared() {
        // scipy.stats.spearmanr([1, 2, 2, 3], [1, 3, 2, 4]) = 0.9486832980505138
        assertEquals(
                0.9486832980505138,
                RankCorrelation.spearman(new double[] {1, 2, 2, 3}, new double[] {1, 3, 2, 4}),
                1e-15);
        assertEquals(-1, RankCorrelation.spearman(new double[] {1, 2, 3}, new double[] {9, 8, 0}), 1e-15);
        assertTrue(Double.isNaN(RankCorrelation.spearman(new double[] {1, 1}, new double[] {1, 2})));
        assertTrue(Double.isNaN(RankCorrelation.spearman(new double[0], new double[0])));
        assertTrue(Double.isNaN(RankCorrelation.spearman(new double[] {1, Double.NaN, 2}, new double[] {1, 2, 3})));
        Random random = new Random(1);
        double[] x = random.doubles(500).toArray();
        assertEquals(
                1, RankCorrelation.spearman(x, Arrays.stream(x).map(Math::exp).toArray()), 1e-12);
    }

    @Test
    void an_output_that_is_like_classes_has_top_1_agreement_and_no_embedding() throws IOException {
        OutputSums sums = new OutputSums("logits");
        var arena = Arena.ofAuto();
        var shape = Shape.of(2, 3);
        sums.add(
                Tensor.ofFloats(arena, "logits", shape, 1, 2, 3, 5, 4, 3),
                Tensor.ofFloats(arena, "logits", shape, 1, 2, 4, 3, 4, 3),
                2,
                null);
        assertEquals(0.5, sums.result().top1Agreement());
        assertNull(new ModelComparison(1, List.of(sums.result()), null, null, List.of()).embedding());
    }
}
