package dev.octet.converter.checkpoint;

import static dev.octet.converter.checkpoint.MadeCheckpoint.TESTDATA;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** There and back again: between layouts, to floats and back, and what each step says it does to the values. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RoundTripTest {
    private static final String Q = "model.layers.0.self_attn.q_proj.weight";
    private static final ConversionRequest KEEPING = new ConversionRequest.Dequantize(DType.BF16, true);
    private static final CheckpointConverter.Request WITH_KEPT =
            new CheckpointConverter.Request(Selection.ALL_LINEARS, Map.of(), AttentionScales.NONE, false, true, false);
    private static final CheckpointConverter.Request EXACT_ONLY =
            new CheckpointConverter.Request(Selection.ALL_LINEARS, Map.of(), AttentionScales.NONE, false, false, true);

    @TempDir
    Path folder;

    private Path made() throws IOException {
        return MadeCheckpoint.small(folder.resolve("source")).write();
    }

    private Path run(Path source, ConversionRequest goal, String name) throws IOException {
        Path out = folder.resolve(name);
        MadeCheckpoint.run(source, goal, out);
        return out;
    }

    private static Stream<Recipe> symmetric() {
        return Recipes.CHECKPOINT.stream().filter(r -> !r.weight().type().hasZeroPoint());
    }

    @ParameterizedTest
    @MethodSource("symmetric")
    void floats_with_kept_scales_become_the_codes_they_came_from(Recipe recipe) throws IOException {
        ConversionRequest goal = MadeCheckpoint.goal(recipe, "compressed-tensors");
        Path first = run(made(), goal, "first");
        Path floats = run(first, KEEPING, "floats");
        Path again = folder.resolve("again");
        MadeCheckpoint.run(floats, goal, WITH_KEPT, again, MadeCheckpoint.threads(2));
        Map<String, String> expected = MadeCheckpoint.sums(first);
        Map<String, String> actual = MadeCheckpoint.sums(again);
        assertEquals(expected, actual);
    }

    @Test
    void without_kept_scales_mxfp8_can_become_other_codes() throws IOException {
        ConversionRequest goal = MadeCheckpoint.goal(Recipes.MXFP8, "compressed-tensors");
        Path first = run(made(), goal, "first");
        Path again = run(run(first, KEEPING, "floats"), goal, "again");
        assertNotEquals(MadeCheckpoint.tensorSums(first), MadeCheckpoint.tensorSums(again));
    }

    @Test
    void kept_scales_of_another_form_are_refused() throws IOException {
        Path first = run(made(), MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), "first");
        Path floats = run(first, KEEPING, "floats");
        for (ConversionRequest other : List.of(
                MadeCheckpoint.goal(Recipes.FP8_BLOCK, "compressed-tensors"),
                MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors"),
                MadeCheckpoint.goal(Recipes.INT8_ASYMMETRIC, "compressed-tensors"))) {
            Path out = folder.resolve("out");
            UnsupportedModelException refusal = assertThrows(
                    UnsupportedModelException.class,
                    () -> MadeCheckpoint.run(floats, other, WITH_KEPT, out, MadeCheckpoint.threads(2)));
            assertTrue(refusal.what().contains("kept scales"), refusal.what());
            assertFalse(Files.exists(out));
        }
        assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.run(
                        made(),
                        MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"),
                        WITH_KEPT,
                        folder.resolve("out"),
                        MadeCheckpoint.threads(1)));
    }

    @Test
    void scales_are_not_kept_beside_one_file() throws IOException {
        Path one = MadeCheckpoint.in(folder.resolve("one"))
                .noise("model.safetensors", Q, 1, 128, 128)
                .write();
        Path first = run(one, MadeCheckpoint.goal(Recipes.MXFP8, "compressed-tensors"), "first");
        assertThrows(
                InvalidOptionException.class,
                () -> MadeCheckpoint.run(first, KEEPING, folder.resolve("floats.safetensors")));
    }

    /** Every tensor of a folder by name, whatever file it lies in. */
    private static Map<String, List<Byte>> tensors(Path folder) throws IOException {
        Map<String, List<Byte>> tensors = new TreeMap<>();
        try (Checkpoint checkpoint = Checkpoint.open(folder)) {
            for (String name : checkpoint.tensors().keySet()) {
                byte[] raw = MadeCheckpoint.raw(checkpoint, name);
                Byte[] boxed = new Byte[raw.length];
                for (int i = 0; i < raw.length; i++) {
                    boxed[i] = raw[i];
                }
                tensors.put(name, List.of(boxed));
            }
        }
        return tensors;
    }

    @Test
    void block_scales_go_through_all_layouts_and_come_back() throws IOException {
        Path start = run(made(), MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), "start");
        Path ct = run(start, MadeCheckpoint.convert("compressed-tensors", Optional.empty()), "ct");
        Path modelopt = run(ct, MadeCheckpoint.convert("modelopt", Optional.empty()), "modelopt");
        Path back = run(modelopt, MadeCheckpoint.convert("fp8", Optional.empty()), "back");
        assertEquals(MadeCheckpoint.sums(start), MadeCheckpoint.sums(back));
        try (Checkpoint checkpoint = Checkpoint.open(modelopt)) {
            assertEquals(
                    4, requireNonNull(checkpoint.tensor(Q + "_scale")).shape().rank());
        }
        assertEquals(
                MadeCheckpoint.sums(run(
                        made(),
                        new ConversionRequest.Quantize(
                                Recipes.FP8_BLOCK,
                                MadeCheckpoint.layout("compressed-tensors"),
                                new LayoutOptions(DType.F32, false, false)),
                        "direct")),
                MadeCheckpoint.sums(ct));
    }

    @ParameterizedTest
    @CsvSource({
        "hf-fp8-block, compressed-tensors",
        "hf-fp8-block, modelopt",
        "ct-fp8-block, fp8",
        "ct-fp8-block, modelopt",
        "ct-fp8-dynamic, modelopt",
        "ct-mxfp8, modelopt",
        "torchao-fp8-dynamic, compressed-tensors",
        "torchao-fp8-weights-only, compressed-tensors",
        "ct-fp8-static, fp8",
        "ct-fp8-static, modelopt",
        "ct-nvfp4, modelopt"
    })
    void checkpoints_of_other_tools_change_layout_without_changing_a_value(String name, String target)
            throws IOException {
        Path source = TESTDATA.resolve("foreign").resolve(name);
        ConversionRequest goal = MadeCheckpoint.convert(target, Optional.empty());
        CheckpointPlan plan = MadeCheckpoint.plan(source, goal);
        Path out = run(source, goal, "out");
        try (CheckpointConverter before = CheckpointConverter.open(source);
                CheckpointConverter after = CheckpointConverter.open(out)) {
            assertEquals(target, after.stored().layout());
            assertEquals(
                    before.stored().weights().keySet(), after.stored().weights().keySet());
            for (TensorStep step : plan.shards().getFirst().steps()) {
                if (step.exactness() == Exactness.EXACT) {
                    assertArrayEquals(
                            MadeCheckpoint.values(before, step.name()),
                            MadeCheckpoint.values(after, step.name()),
                            step.name());
                }
            }
        }
        boolean divides = name.equals("ct-nvfp4"); // the reciprocal of a scale is rounded
        assertTrue(divides || plan.count(Exactness.EXACT) == 7, plan.notes().toString());
    }

    @Test
    void nvfp4_goes_between_layouts_with_the_codes_it_has() throws IOException {
        Path start = run(made(), MadeCheckpoint.goal(Recipes.NVFP4, "compressed-tensors"), "start");
        Path modelopt = run(start, MadeCheckpoint.convert("modelopt", Optional.empty()), "modelopt");
        Path back = run(modelopt, MadeCheckpoint.convert("compressed-tensors", Optional.empty()), "back");
        Map<String, List<Byte>> expected = tensors(start);
        Map<String, List<Byte>> actual = tensors(back);
        assertEquals(expected.keySet(), actual.keySet());
        expected.keySet().removeIf(n -> n.endsWith("global_scale"));
        actual.keySet().removeIf(n -> n.endsWith("global_scale"));
        assertEquals(expected, actual);
        float before = MadeCheckpoint.floats(start, Q + "_global_scale")[0];
        assertEquals(before, MadeCheckpoint.floats(back, Q + "_global_scale")[0], Math.ulp(before));
    }

    @Test
    void exact_only_accepts_what_is_exact_and_names_what_is_not() throws IOException {
        Path start = run(made(), MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), "start");
        MadeCheckpoint.run(
                start,
                MadeCheckpoint.convert("compressed-tensors", Optional.empty()),
                EXACT_ONLY,
                folder.resolve("ct"),
                MadeCheckpoint.threads(1));
        for (ConversionRequest inexact : List.of(
                new ConversionRequest.Dequantize(DType.BF16, false),
                MadeCheckpoint.goal(Recipes.MXFP8, "compressed-tensors"),
                MadeCheckpoint.convert("compressed-tensors", Optional.of(Recipes.MXFP8)))) {
            Path out = folder.resolve("out");
            OctetException refusal = assertThrows(
                    UnsupportedModelException.class,
                    () -> MadeCheckpoint.run(start, inexact, EXACT_ONLY, out, MadeCheckpoint.threads(1)));
            assertTrue(refusal.what().contains(" weights would change their values: model.layers.0."), refusal.what());
            assertFalse(Files.exists(out));
        }
    }

    @Test
    void powers_of_two_dequantise_exactly_value_by_value() throws IOException {
        ConversionRequest goal = new ConversionRequest.Quantize(
                Recipes.FP8_BLOCK, MadeCheckpoint.layout("fp8"), new LayoutOptions(DType.F32, true, false));
        Path start = run(made(), goal, "start");
        for (DType type : List.of(DType.BF16, DType.F32)) {
            ConversionRequest floats = new ConversionRequest.Dequantize(type, false);
            assertEquals(7, MadeCheckpoint.plan(start, floats).count(Exactness.EXACT));
            requireSameValues(start, run(start, floats, "floats" + type));
        }
    }

    /** The products of codes and scales in double precision, which holds them exactly, against the floats in the file. */
    private static void requireSameValues(Path quantized, Path floats) throws IOException {
        try (CheckpointConverter before = CheckpointConverter.open(quantized)) {
            for (StoredWeight weight : before.stored().weights().values()) {
                byte[] codes = MadeCheckpoint.raw(before.checkpoint(), weight.name());
                float[] scales = MadeCheckpoint.floats(quantized, weight.name() + "_scale_inv");
                float[] values = MadeCheckpoint.floats(floats, weight.name());
                int cols = (int) weight.shape().dim(1);
                for (int i = 0; i < codes.length; i++) {
                    int block = i / cols / 128 * (cols / 128) + i % cols / 128;
                    double exact = (double) Float8Format.E4M3FN.decode(codes[i] & 0xFF) * scales[block];
                    assertEquals(exact, values[i], weight.name() + "[" + i + "]");
                }
            }
        }
    }

    @Test
    void scales_of_any_number_round_each_value_once() throws IOException {
        Path start = run(made(), MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), "start");
        ConversionRequest floats = new ConversionRequest.Dequantize(DType.BF16, false);
        assertTrue(MadeCheckpoint.plan(start, floats).shards().stream()
                .flatMap(s -> s.steps().stream())
                .anyMatch(s -> s.name().equals(Q) && s.exactness() == Exactness.ONE_ROUNDING));
        Path out = run(start, floats, "floats");
        byte[] codes;
        try (Checkpoint checkpoint = Checkpoint.open(start)) {
            codes = MadeCheckpoint.raw(checkpoint, Q);
        }
        float scale = MadeCheckpoint.floats(start, Q + "_scale_inv")[0];
        float[] values = MadeCheckpoint.floats(out, Q);
        for (int i = 0; i < codes.length; i++) {
            // the product in F32 as every reader computes it, then its nearest BF16
            float product = Float8Format.E4M3FN.decode(codes[i] & 0xFF) * scale;
            assertEquals(BFloat16.toFloat(BFloat16.fromFloat(product)), values[i], "value " + i);
        }
    }

    @ParameterizedTest
    @CsvSource({"1, EXACT", "3, EXACT", "15, EXACT", "31, ONE_ROUNDING", "255, ONE_ROUNDING"})
    void a_step_is_called_exact_only_where_all_codes_survive_it(int numerator, Exactness expected) throws IOException {
        byte[] codes = new byte[16 * 16];
        for (int i = 0; i < codes.length; i++) {
            codes[i] = (byte) ((i & 0x7F) == 0x7F ? 0 : i); // all but NaN
        }
        float scale = numerator / 1024f;
        Tensor scaleTensor = MadeCheckpoint.set(MadeCheckpoint.noise(DType.F32, Q + "_scale", 1, 1), 0, scale);
        Path source = MadeCheckpoint.in(folder.resolve("source"))
                .with("model.safetensors", MadeCheckpoint.bytes(DType.F8_E4M3FN, Q, codes, 16, 16))
                .with("model.safetensors", scaleTensor)
                .write();
        ConversionRequest floats = new ConversionRequest.Dequantize(DType.BF16, false);
        assertEquals(1, MadeCheckpoint.plan(source, floats).count(expected));
        float[] values = MadeCheckpoint.floats(run(source, floats, "floats"), Q);
        boolean same = true;
        for (int i = 0; i < codes.length; i++) {
            same &= (double) Float8Format.E4M3FN.decode(codes[i] & 0xFF) * scale == values[i];
        }
        assertEquals(expected == Exactness.EXACT, same);
    }

    @Test
    void a_recipe_rounds_what_the_target_cannot_hold_and_keeps_static_input_scales() throws IOException {
        Path source = TESTDATA.resolve("foreign/ct-fp8-static");
        ConversionRequest goal = MadeCheckpoint.convert("compressed-tensors", Optional.of(Recipes.FP8_DYNAMIC));
        CheckpointPlan plan = MadeCheckpoint.plan(source, goal);
        assertEquals(7, plan.count(Exactness.DOUBLE_ROUNDING));
        Path out = run(source, goal, "out");
        assertArrayEquals(
                MadeCheckpoint.floats(source, Q.replace(".weight", ".input_scale")),
                MadeCheckpoint.floats(out, Q.replace(".weight", ".input_scale")));
    }

    @Test
    void weights_quantised_in_two_ways_do_not_get_one_configuration() throws IOException {
        Tensor codes = MadeCheckpoint.bytes(DType.F8_E4M3FN, Q, new byte[256 * 256], 256, 256);
        Tensor other = codes.withName("model.layers.1.self_attn.q_proj.weight");
        Path source = MadeCheckpoint.in(folder.resolve("source"))
                .with("model.safetensors", codes)
                .with(
                        "model.safetensors",
                        MadeCheckpoint.set(MadeCheckpoint.noise(DType.F32, Q + "_scale", 1, 1), 0, 1))
                .with("model.safetensors", other)
                .with("model.safetensors", ones(other.name() + "_scale", 256, 1))
                .write();
        assertThrows(
                UnsupportedModelException.class,
                () -> MadeCheckpoint.plan(source, MadeCheckpoint.convert("compressed-tensors", Optional.empty())));
    }

    private static Tensor ones(String name, long... dims) {
        Tensor tensor = MadeCheckpoint.noise(DType.F32, name, 1, dims);
        for (long i = 0; i < tensor.shape().elementCount(); i++) {
            MadeCheckpoint.set(tensor, i, 1);
        }
        return tensor;
    }
}
