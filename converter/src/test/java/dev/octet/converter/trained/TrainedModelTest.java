package dev.octet.converter.trained;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.Converter;
import dev.octet.converter.TinyModels;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.LinearScales;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A run's weights and scales as ONNX: what stands in the file, and what ONNX Runtime makes of it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainedModelTest {
    private static final String BERT = "bert_eager_script17";
    private static final String QUERY = "m.bert.encoder.layer.0.attention.self.query.weight";

    @TempDir
    Path folder;

    private float[] logits(GraphModel model, String name) throws IOException, OrtException {
        try (ModelFile golden = TinyModels.golden(name)) {
            return TinyModels.logits(model, golden, TinyModels.rows(name), folder.resolve("run.onnx"));
        }
    }

    private static Tensor constant(GraphModel model, String name) {
        return requireNonNull(model.graph().initializers().get(name), name)
                .tensor()
                .orElseThrow();
    }

    @Test
    void trained_weights_take_the_place_of_the_constants_bit_for_bit() throws IOException {
        try (MadeRun run = new MadeRun(BERT);
                TrainedModel trained = run.trained()) {
            GraphModel plain = trained.plain(DType.F32);
            run.weights.forEach((name, w) ->
                    assertArrayEquals(w.toFloats(), constant(plain, name).toFloats(), name));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert_eager_script14", "gpt2_eager_dynamo18", "llama_eager_dynamo23", "vit_eager_script17"})
    void weights_in_bf16_are_cast_back_by_the_graph(String name) throws IOException, OrtException {
        try (MadeRun run = new MadeRun(name);
                TrainedModel trained = run.trained()) {
            float[] wide = logits(trained.plain(DType.F32), name);
            GraphModel narrow = trained.plain(DType.BF16);
            // BF16 keeps 8 bits: each weight moves by 2^-9 of itself at most
            assertEquals(0, TinyModels.relativeError(logits(narrow, name), wide), 0.02);
            assertTrue(narrow.graph().initializers().values().stream()
                    .anyMatch(i -> i.tensor().orElseThrow().dtype() == DType.BF16));
        }
    }

    @ParameterizedTest
    @EnumSource(OnnxTarget.class)
    void both_targets_compute_nearly_what_the_trained_floats_give(OnnxTarget target) throws IOException, OrtException {
        try (MadeRun run = new MadeRun(BERT);
                TrainedModel trained = run.trained()) {
            Conversion fp8 = trained.quantized(
                    Recipes.FP8_PER_TENSOR, ConversionOptions.defaults().withTarget(target), Map.of());
            assertEquals(
                    run.linears().size(), fp8.plan().converted(LayerKind.LINEAR).size());
            if (target == OnnxTarget.ONNXRUNTIME) {
                float[] wide = logits(trained.plain(DType.F32), BERT);
                assertEquals(0, TinyModels.relativeError(logits(fp8.model(), BERT), wide), 0.1);
            }
        }
    }

    /** The scale of the run multiplies on the way in; what the file holds multiplies on the way out. */
    @Test
    void codes_and_scales_of_weights_are_those_of_the_run() throws IOException {
        try (MadeRun run = new MadeRun(BERT)) {
            Node query = run.linear(QUERY);
            float quantScale = 301.7f;
            run.scales.put(query.id(), new LinearScales(MadeRun.INPUT_AMAX, MadeRun.INPUT_AMAX / 448, quantScale, ""));
            try (TrainedModel trained = run.trained()) {
                GraphModel fp8 = trained.quantized(
                                Recipes.FP8_PER_TENSOR,
                                ConversionOptions.defaults().withTarget(OnnxTarget.TENSORRT),
                                Map.of())
                        .model();
                Tensor codes = constant(fp8, QUERY);
                float[] w = requireNonNull(run.weights.get(QUERY)).toFloats();
                for (int i = 0; i < w.length; i++) {
                    assertEquals(
                            Float8Format.E4M3FN.encode(w[i] * quantScale, Overflow.SATURATE),
                            codes.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF);
                }
                String module = QUERY.substring(0, QUERY.length() - ".weight".length());
                assertEquals(
                        1 / quantScale, constant(fp8, module + ".weight_scale").toFloats()[0]);
                assertEquals(
                        MadeRun.INPUT_AMAX / 448,
                        constant(fp8, module + ".input_scale").toFloats()[0]);
            }
        }
    }

    @Test
    void linears_that_read_the_same_value_share_the_largest_of_their_scales() throws IOException {
        try (MadeRun run = new MadeRun(BERT)) {
            run.scales.put(run.linear(QUERY.replace("query", "key")).id(), LinearScales.ofInput(16, 16f / 448));
            try (TrainedModel trained = run.trained()) {
                Conversion fp8 = trained.quantized(Recipes.FP8_PER_CHANNEL, ConversionOptions.defaults(), Map.of());
                String input = run.linear(QUERY).input(0);
                assertEquals(
                        16f / 448, requireNonNull(fp8.activations().get(input)).scale());
            }
        }
    }

    @Test
    void a_linear_the_run_computed_in_high_precision_is_kept_and_so_is_the_norm_before_it() throws IOException {
        try (MadeRun run = new MadeRun(BERT)) {
            for (String part : List.of("query", "key", "value")) {
                run.scales.remove(run.linear(QUERY.replace("query", part)).id());
            }
            try (TrainedModel trained = run.trained()) {
                for (var recipe : Recipes.GRAPH) {
                    Conversion fp8 = trained.quantized(recipe, ConversionOptions.defaults(), Map.of());
                    List<Decision.Kept> kept = fp8.plan().kept();
                    assertEquals(
                            3,
                            kept.stream()
                                    .filter(k -> k.reason().equals("the run computed it in high precision"))
                                    .count());
                    String input = run.linear(QUERY).input(0);
                    assertTrue(!fp8.activations().containsKey(input), recipe.name());
                }
            }
        }
    }

    @Test
    void a_linear_without_a_static_scale_is_kept_with_the_reason_but_can_be_weight_only() throws IOException {
        try (MadeRun run = new MadeRun(BERT)) {
            String node = run.linear(QUERY).id();
            run.scales.put(node, LinearScales.none("its scales are found for each block"));
            try (TrainedModel trained = run.trained()) {
                Decision.Kept kept = trained
                        .quantized(Recipes.FP8_PER_CHANNEL, ConversionOptions.defaults(), Map.of())
                        .plan()
                        .kept()
                        .stream()
                        .filter(k -> k.node().equals(node))
                        .findFirst()
                        .orElseThrow();
                assertEquals("its scales are found for each block", kept.reason());
                Conversion weightOnly =
                        trained.quantized(Recipes.FP8_WEIGHT_ONLY, ConversionOptions.defaults(), Map.of());
                assertTrue(weightOnly.plan().converted().stream()
                        .anyMatch(d -> d.node().equals(node)));
            }
        }
    }

    /** Training a quantised model begins where it is: not one code turns before the first step. */
    @ParameterizedTest
    @ValueSource(strings = {"fp8", "fp8-per-tensor"})
    void dequantised_weights_round_to_the_codes_they_came_from(String recipe) throws IOException {
        try (MadeRun run = new MadeRun(BERT);
                TrainedModel trained = run.trained()) {
            Recipe chosen = Recipes.GRAPH.stream()
                    .filter(r -> r.name().equals(recipe))
                    .findFirst()
                    .orElseThrow();
            Conversion once = trained.quantized(chosen, ConversionOptions.defaults(), Map.of());
            try (TrainedModel again = TrainedModel.dequantized(run.source, once);
                    Converter student =
                            run.source.withWeights(Map.of(QUERY, constant(again.plain(DType.F32), QUERY)))) {
                Conversion twice = student.convert(once.plan(), run.scales, ConversionOptions.defaults(), Map.of());
                assertEquals(
                        -1,
                        constant(once.model(), QUERY)
                                .bytes()
                                .mismatch(constant(twice.model(), QUERY).bytes()));
            }
        }
    }

    @Test
    void a_weight_that_diverged_is_refused_by_name() throws IOException {
        try (MadeRun run = new MadeRun(BERT);
                Arena arena = Arena.ofShared()) {
            float[] w = requireNonNull(run.weights.get(QUERY)).toFloats();
            w[5] = Float.NaN;
            Shape shape = requireNonNull(run.weights.get(QUERY)).shape();
            run.weights.put(QUERY, Tensor.ofFloats(arena, QUERY, shape, w));
            InvalidDataException e = assertThrows(InvalidDataException.class, run::trained);
            assertTrue(e.where().contains(QUERY), e.where());
        }
    }

    @Test
    void weights_of_another_model_are_refused() throws IOException {
        try (MadeRun run = new MadeRun(BERT);
                Arena arena = Arena.ofShared()) {
            run.weights.put("no.such.weight", Tensor.ofFloats(arena, "x", Shape.of(1), 1));
            assertThrows(InvalidDataException.class, run::trained);
            run.weights.remove("no.such.weight");
            run.weights.put(QUERY, Tensor.ofFloats(arena, QUERY, Shape.of(2), 1, 2));
            assertThrows(InvalidDataException.class, run::trained);
        }
    }
}
