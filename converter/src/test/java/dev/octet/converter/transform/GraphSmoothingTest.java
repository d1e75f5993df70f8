package dev.octet.converter.transform;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GraphSmoothingTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx");

    private static final Transform.SmoothQuant HALF = new Transform.SmoothQuant(0.5);

    /** Largest magnitudes of channels that differ by factors of up to a thousand. */
    private static Map<String, float[]> amax(Converter converter) {
        SplittableRandom random = new SplittableRandom(5);
        Map<String, float[]> all = new LinkedHashMap<>();
        for (InputSite site : new ModelStructure(converter.canonical().graph()).sites()) {
            float[] amax = new float[site.channels()];
            for (int c = 0; c < amax.length; c++) {
                amax[c] = (float) Math.exp(random.nextDouble() * 7 - 3);
            }
            all.put(site.value(), amax);
        }
        return all;
    }

    private static List<OnnxRuntimeOracle.Output> outputs(GraphModel model, Arena arena, Path folder) throws Exception {
        long[] ids = new SplittableRandom(1).longs(14, 1, 100).toArray();
        long[] ones = new long[ids.length];
        Arrays.fill(ones, 1);
        List<Tensor> inputs = model.graph().inputs().stream()
                .map(i ->
                        Tensor.ofLongs(arena, i.name(), Shape.of(2, 7), i.name().equals("input_ids") ? ids : ones))
                .toList();
        return OnnxRuntimeOracle.run(model, inputs, folder);
    }

    /** The largest of all outputs. */
    private static float difference(List<OnnxRuntimeOracle.Output> before, List<OnnxRuntimeOracle.Output> after) {
        assertEquals(before.size(), after.size());
        float largest = 0;
        for (int i = 0; i < before.size(); i++) {
            FloatBuffer a = before.get(i).bytes().order(ByteOrder.nativeOrder()).asFloatBuffer();
            FloatBuffer b = after.get(i).bytes().order(ByteOrder.nativeOrder()).asFloatBuffer();
            assertEquals(a.remaining(), b.remaining());
            for (int k = 0; k < a.remaining(); k++) {
                largest = Math.max(largest, Math.abs(a.get(k) - b.get(k)));
            }
        }
        return largest;
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert_eager_script17", "gpt2_eager_script17", "llama_eager_script17"})
    void a_smoothed_model_computes_the_same_bits(String name, @TempDir Path folder) throws Exception {
        try (ModelSource source = ModelSource.open(MODELS.resolve(name + ".onnx"));
                Converter converter = source.converter();
                Arena arena = Arena.ofShared()) {
            GraphSmoothing.Result smoothed = GraphSmoothing.apply(converter.canonical(), amax(converter), HALF, arena);
            assertTrue(smoothed.folds().size() > 3, smoothed.folds().toString());
            GraphModel standard = new StandardOps().apply(smoothed.model(), new PassLog());
            List<OnnxRuntimeOracle.Output> before = outputs(converter.runnable(), arena, folder);
            List<OnnxRuntimeOracle.Output> after = outputs(standard, arena, folder);
            // factors are powers of two
            assertEquals(0, difference(before, after));
        }
    }

    @Test
    void behind_a_residual_a_mul_divides_and_a_norm_with_one_reader_takes_the_factors_in() throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve("bert_eager_script17.onnx"));
                Converter converter = source.converter();
                Arena arena = Arena.ofShared()) {
            GraphSmoothing.Result smoothed = GraphSmoothing.apply(converter.canonical(), amax(converter), HALF, arena);
            long products = smoothed.model().graph().nodes().stream()
                    .filter(n -> n.is("Mul") && n.output().endsWith("_smooth"))
                    .count();
            List<String> norms = smoothed.folds().stream()
                    .filter(f -> f.how().startsWith("channels of"))
                    .map(TransformStep::into)
                    .toList();
            // behind the last residual and in the head
            assertEquals(
                    List.of("m.bert.encoder.layer.1.output.LayerNorm", "m.cls.predictions.transform.LayerNorm"), norms);
            assertEquals(smoothed.folds().size(), products + norms.size());
        }
    }

    @Test
    void factors_are_powers_of_two_and_one_where_nothing_was_seen() throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve("bert_eager_script17.onnx"));
                Converter converter = source.converter();
                Arena arena = Arena.ofShared()) {
            Map<String, float[]> amax = amax(converter);
            amax.values().forEach(a -> a[3] = 0);
            GraphModel smoothed = GraphSmoothing.apply(converter.canonical(), amax, HALF, arena)
                    .model();
            int vectors = 0;
            for (Node n : smoothed.graph().nodes()) {
                if (n.is("Mul") && n.output().endsWith("_smooth")) {
                    float[] by = requireNonNull(smoothed.graph().initializers().get(n.input(1)))
                            .tensor()
                            .orElseThrow()
                            .toFloats();
                    assertEquals(1, by[3]);
                    for (float f : by) {
                        assertEquals(Math.scalb(1f, Math.getExponent(f)), f);
                    }
                    vectors++;
                }
            }
            assertTrue(vectors > 0);
        }
    }

    @Test
    void nothing_to_smooth_is_refused() throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve("bert_eager_script17.onnx"));
                Converter converter = source.converter();
                Arena arena = Arena.ofShared()) {
            assertTrue(converter
                    .plan(Recipes.INT8_WEIGHT_ONLY, List.of())
                    .quantizedInputs()
                    .isEmpty());
            assertThrows(
                    UnsupportedModelException.class,
                    () -> GraphSmoothing.apply(converter.canonical(), Map.of(), HALF, arena));
        }
    }
}
