package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Planted differences between checkpoints in files. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TensorComparisonTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String WEIGHT = "model.layers.0.mlp.up_proj.weight";
    private static final int ROWS = 160;
    private static final int COLS = 192;

    @TempDir
    Path folder;

    private final Arena arena = Arena.ofShared();

    @AfterEach
    void free() {
        arena.close();
    }

    private Tensor tensor(String name, DType type, Shape shape) {
        return Tensor.allocate(arena, new TensorSpec(name, type, shape));
    }

    private Tensor bf16(String name, Shape shape, float[] values) {
        Tensor t = tensor(name, DType.BF16, shape);
        for (int i = 0; i < values.length; i++) {
            t.bytes().set(Tensor.I16_LE, i * 2L, BFloat16.fromFloat(values[i]));
        }
        return t;
    }

    private Tensor f32(String name, Shape shape, float... values) {
        return Tensor.ofFloats(arena, name, shape, values);
    }

    private static float[] normal(long seed, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[count];
        for (int i = 0; i < count; i++) {
            x[i] = BFloat16.toFloat(BFloat16.fromFloat((float) random.nextGaussian() * 0.03f));
        }
        return x;
    }

    /** Rows of E4M3FN codes with a scale for each row, as compressed-tensors stores them. */
    private List<Tensor> perChannel(String name, Shape shape, float[] x, float[] scales) {
        int cols = (int) shape.dim(-1);
        Tensor codes = tensor(name, DType.F8_E4M3FN, shape);
        for (int i = 0; i < x.length; i++) {
            int code = Float8Format.E4M3FN.encode(x[i] / scales[i / cols], Overflow.SATURATE);
            codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
        return List.of(codes, f32(name + "_scale", Shape.of(scales.length, 1), scales));
    }

    private static float[] rowScales(float[] x, int cols) {
        float[] scales = new float[x.length / cols];
        for (int r = 0; r < scales.length; r++) {
            float amax = 0;
            for (int c = 0; c < cols; c++) {
                amax = Math.max(amax, Math.abs(x[r * cols + c]));
            }
            scales[r] = amax / 448;
        }
        return scales;
    }

    private static float[] dequantized(float[] x, float[] scales, int cols) {
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            float scale = scales[i / cols];
            y[i] = Float8Format.E4M3FN.decode(Float8Format.E4M3FN.encode(x[i] / scale, Overflow.SATURATE)) * scale;
        }
        return y;
    }

    private Path save(String name, List<Tensor> tensors) throws IOException {
        Map<String, Tensor> byName = new LinkedHashMap<>();
        tensors.forEach(t -> byName.put(t.name(), t));
        Path file = folder.resolve(name + ".safetensors");
        SafetensorsWriter.write(file, byName, Map.of("format", "pt"));
        return file;
    }

    private static ModelDiff diff(Path a, Path b) throws IOException {
        return TensorComparison.compare(a, b, CompareOptions.defaults().withThreads(2));
    }

    private TensorDiff only(List<Tensor> a, List<Tensor> b) throws IOException {
        ModelDiff diff = diff(save("a", a), save("b", b));
        assertEquals(1, diff.tensors().size(), diff.toString());
        assertEquals(List.of(), diff.uncomparable());
        return diff.tensors().getFirst();
    }

    @Test
    void a_model_is_identical_to_itself() throws IOException {
        Path model = TESTDATA.resolve("checkpoints/foreign/ct-fp8-block");
        ModelDiff diff = diff(model, model);
        assertTrue(diff.identical());
        assertEquals(1, diff.summary().matched());
        assertEquals(0, diff.summary().differing());
        assertEquals(Double.POSITIVE_INFINITY, diff.summary().sqnrDbMin());
    }

    @Test
    void sharding_and_order_do_not_matter() throws IOException {
        float[] x = normal(1, ROWS * COLS);
        Tensor one = bf16("one.weight", Shape.of(ROWS, COLS), x);
        Tensor two = f32("two.bias", Shape.of(3), 1, 2, 3);
        Path single = save("single", List.of(one, two));
        Path sharded = Files.createDirectory(folder.resolve("sharded"));
        SafetensorsWriter.writeFolder(
                sharded, new LinkedHashMap<>(Map.of("two.bias", two, "one.weight", one)), Map.of(), 20);
        assertTrue(Files.exists(sharded.resolve("model.safetensors.index.json")));
        ModelDiff diff = diff(single, sharded);
        assertTrue(diff.identical(), diff.toString());
        assertEquals(2, diff.tensors().size());
    }

    @Test
    void measures_are_those_of_plain_loops() throws IOException {
        float[] x = normal(2, ROWS * COLS);
        float[] scales = rowScales(x, COLS);
        Shape shape = Shape.of(ROWS, COLS);
        TensorDiff diff = only(List.of(bf16(WEIGHT, shape, x)), perChannel(WEIGHT, shape, x, scales));
        float[] y = dequantized(x, scales, COLS);
        double signal = 0;
        double noise = 0;
        double dot = 0;
        double squares = 0;
        double maxError = 0;
        double maxUlp = 0;
        double amaxX = 0;
        double amaxY = 0;
        long differing = 0;
        for (int i = 0; i < x.length; i++) {
            double error = Math.abs((double) x[i] - y[i]);
            signal += (double) x[i] * x[i];
            squares += (double) y[i] * y[i];
            dot += (double) x[i] * y[i];
            noise += error * error;
            maxError = Math.max(maxError, error);
            maxUlp = Math.max(maxUlp, error / unit(x[i], y[i], scales[i / COLS]));
            amaxX = Math.max(amaxX, Math.abs(x[i]));
            amaxY = Math.max(amaxY, Math.abs(y[i]));
            differing += x[i] == y[i] ? 0 : 1;
        }
        assertEquals(10 * Math.log10(signal / noise), diff.sqnrDb(), 1e-9);
        assertEquals(dot / Math.sqrt(signal) / Math.sqrt(squares), diff.cosine(), 1e-12);
        assertEquals(maxError, diff.maxAbsError());
        assertEquals(maxUlp, diff.maxUlpError(), 1e-9);
        assertEquals(Math.abs(amaxY - amaxX) / amaxX, diff.relativeAmaxDifference(), 1e-12);
        assertEquals(differing, diff.differing());
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
        assertEquals(differing, diff.errors().stream().mapToLong(n -> n).sum());
    }

    /** The distance of E4M3FN numbers at the smaller magnitude, found by walking over all of them; half of that at the larger if more. */
    private static double unit(float x, float y, float scale) {
        double smaller = distance(Math.min(Math.abs(x), Math.abs(y)) / scale);
        double larger = distance(Math.max(Math.abs(x), Math.abs(y)) / scale);
        return Math.max(smaller, larger / 2) * scale;
    }

    private static double distance(float v) {
        int code = 0;
        while (code < 0x7D && Float8Format.E4M3FN.decode(code + 1) <= v) {
            code++;
        }
        return (double) Float8Format.E4M3FN.decode(code + 1) - Float8Format.E4M3FN.decode(code);
    }

    @Test
    void one_doubled_scale_is_counted_with_its_ratio() throws IOException {
        float[] x = normal(3, ROWS * COLS);
        float[] scales = rowScales(x, COLS);
        Shape shape = Shape.of(ROWS, COLS);
        List<Tensor> a = perChannel(WEIGHT, shape, x, scales);
        float[] doubled = scales.clone();
        doubled[17] *= 2;
        TensorDiff diff = only(a, List.of(a.getFirst(), f32(WEIGHT + "_scale", Shape.of(ROWS, 1), doubled)));
        ScaleChanges changes = diff.scales();
        assertNotNull(changes);
        assertEquals(new ScaleChanges(ROWS, 1, 2), changes);
        assertEquals(Closeness.BEYOND, diff.closeness());
        assertTrue(diff.differing() <= COLS && diff.differing() > COLS / 2, "differing " + diff.differing());
    }

    @Test
    void a_flipped_bit_of_one_code_is_one_differing_element() throws IOException {
        float[] x = normal(4, ROWS * COLS);
        Shape shape = Shape.of(ROWS, COLS);
        List<Tensor> a = perChannel(WEIGHT, shape, x, rowScales(x, COLS));
        Tensor flipped = tensor(WEIGHT, DType.F8_E4M3FN, shape);
        flipped.bytes().copyFrom(a.getFirst().bytes());
        byte code = flipped.bytes().get(ValueLayout.JAVA_BYTE, 1234);
        flipped.bytes().set(ValueLayout.JAVA_BYTE, 1234, (byte) (code ^ 0x10));
        TensorDiff diff = only(a, List.of(flipped, a.getLast()));
        assertEquals(1, diff.differing());
        assertEquals(Closeness.BEYOND, diff.closeness());
    }

    @Test
    void a_zero_of_another_sign_is_the_same_value_but_not_identical() throws IOException {
        TensorDiff diff = only(List.of(f32("w", Shape.of(2), 0f, 1f)), List.of(f32("w", Shape.of(2), -0f, 1f)));
        assertEquals(0, diff.differing());
        assertEquals(1, diff.zeroSigns());
        assertEquals(Closeness.SAME_VALUES, diff.closeness());
    }

    @Test
    void dequantised_to_BF16_is_within_one_rounding() throws IOException {
        float[] x = normal(5, ROWS * COLS);
        float[] scales = rowScales(x, COLS);
        Shape shape = Shape.of(ROWS, COLS);
        TensorDiff diff =
                only(perChannel(WEIGHT, shape, x, scales), List.of(bf16(WEIGHT, shape, dequantized(x, scales, COLS))));
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
        assertFalse(diff.rounding().isDouble(), diff.rounding().evidence());
    }

    @Test
    void a_dequantised_F32_copy_has_the_same_values() throws IOException {
        float[] x = normal(6, ROWS * COLS);
        float[] scales = rowScales(x, COLS);
        Shape shape = Shape.of(ROWS, COLS);
        TensorDiff diff =
                only(perChannel(WEIGHT, shape, x, scales), List.of(f32(WEIGHT, shape, dequantized(x, scales, COLS))));
        assertEquals(Closeness.SAME_VALUES, diff.closeness());
    }

    @Test
    void one_scale_for_all_and_the_same_for_each_row_are_the_same_values() throws IOException {
        float[] x = normal(7, ROWS * COLS);
        float[] scales = new float[ROWS];
        Arrays.fill(scales, 0.125f / 448);
        Shape shape = Shape.of(ROWS, COLS);
        List<Tensor> rows = perChannel(WEIGHT, shape, x, scales);
        TensorDiff diff = only(rows, List.of(rows.getFirst(), f32(WEIGHT + "_scale", Shape.of(1), scales[0])));
        assertEquals(Closeness.SAME_VALUES, diff.closeness(), diff.toString());
        assertFalse(diff.schemeA().equals(diff.schemeB()));
    }

    @Test
    void a_transposed_matrix_is_recognised_square_or_not() throws IOException {
        for (int cols : new int[] {COLS, ROWS}) {
            float[] x = normal(8, ROWS * cols);
            float[] y = new float[x.length];
            for (int r = 0; r < ROWS; r++) {
                for (int c = 0; c < cols; c++) {
                    y[c * ROWS + r] = x[r * cols + c];
                }
            }
            TensorDiff diff = only(
                    List.of(bf16(WEIGHT, Shape.of(ROWS, cols), x)), List.of(bf16(WEIGHT, Shape.of(cols, ROWS), y)));
            assertTrue(diff.transposed());
            assertEquals(0, diff.differing());
        }
    }

    @Test
    void a_transposed_quantised_matrix_is_compared_with_its_own_scales() throws IOException {
        float[] x = normal(9, ROWS * COLS);
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            y[i % COLS * ROWS + i / COLS] = x[i];
        }
        TensorDiff diff = only(
                List.of(bf16(WEIGHT, Shape.of(ROWS, COLS), x)),
                perChannel(WEIGHT, Shape.of(COLS, ROWS), y, rowScales(y, ROWS)));
        assertTrue(diff.transposed());
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
    }

    @Test
    void a_NaN_on_one_side_is_beyond_and_counted() throws IOException {
        Shape shape = Shape.of(4);
        TensorDiff diff = only(
                List.of(f32("w", shape, 1, 2, Float.NaN, Float.POSITIVE_INFINITY)),
                List.of(f32("w", shape, 1, Float.NaN, Float.NaN, Float.POSITIVE_INFINITY)));
        assertEquals(3, diff.notFinite());
        assertEquals(1, diff.notFiniteApart());
        assertEquals(Closeness.BEYOND, diff.closeness());
    }

    @Test
    void empty_tensors_and_scalars_are_compared() throws IOException {
        Path a = save("a", List.of(f32("empty", Shape.of(0, 4)), f32("scalar", Shape.SCALAR, 3f)));
        Path b = save("b", List.of(f32("empty", Shape.of(0, 4)), f32("scalar", Shape.SCALAR, 3.5f)));
        ModelDiff diff = diff(a, b);
        assertEquals("scalar", diff.tensors().getFirst().a());
        assertEquals(0.5, diff.tensors().getFirst().maxAbsError());
        assertEquals(Closeness.IDENTICAL, diff.tensors().getLast().closeness());
    }

    @Test
    void tensors_larger_than_a_tile_are_the_same_for_any_number_of_threads() throws IOException {
        int rows = 3000;
        int cols = 1111;
        float[] x = normal(10, rows * cols);
        Shape shape = Shape.of(rows, cols);
        Path a = save("a", List.of(bf16(WEIGHT, shape, x)));
        Path b = save("b", perChannel(WEIGHT, shape, x, rowScales(x, cols)));
        ModelDiff one = TensorComparison.compare(a, b, CompareOptions.defaults().withThreads(1));
        for (int threads : new int[] {2, 3, 8}) {
            assertEquals(
                    one,
                    TensorComparison.compare(a, b, CompareOptions.defaults().withThreads(threads)));
        }
        assertEquals(rows * (long) cols, one.summary().elements());
    }

    @Test
    void experts_in_three_axes_are_compared_like_matrices() throws IOException {
        String name = "model.layers.0.mlp.experts.down_proj";
        Shape shape = Shape.of(5, 32, 48);
        float[] x = normal(11, 5 * 32 * 48);
        float[] y = x.clone();
        y[32 * 48 * 3 + 7] += 1;
        TensorDiff diff = only(List.of(bf16(name, shape, x)), List.of(bf16(name, shape, y)));
        assertEquals(1, diff.differing());
        assertEquals(List.of(5L, 32L, 48L), diff.shape());
    }

    @Test
    void large_experts_are_cut_at_borders_of_their_own_blocks() throws IOException {
        Shape shape = Shape.of(3, 1400, 900); // 1400 rows are not whole number of blocks of 128, and more than a tile
        float[] x = normal(14, 3 * 1400 * 900);
        float[] multipliers = new float[x.length];
        Arrays.fill(multipliers, 0.001f);
        NumberGrid grid = NumberGrid.quantized(QuantType.E4M3FN, DType.F32);
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            y[i] = grid.round(x[i], multipliers[i]);
        }
        ModelDiff diff = TensorComparison.compare(
                "a",
                "b",
                ArrayWeights.of(ArrayWeights.plain("w", DType.BF16, shape, x)),
                // refuses ranges that do not start at a block of a matrix
                ArrayWeights.of(ArrayWeights.quantized("w", QuantType.E4M3FN, "E4M3FN", 128, shape, y, multipliers)),
                CompareOptions.defaults().withThreads(2));
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.tensors().getFirst().closeness());
        double noise = 0;
        double signal = 0;
        for (int i = 0; i < x.length; i++) {
            noise += ((double) x[i] - y[i]) * ((double) x[i] - y[i]);
            signal += (double) x[i] * x[i];
        }
        assertEquals(10 * Math.log10(signal / noise), diff.tensors().getFirst().sqnrDb(), 1e-9);
    }

    @Test
    void quantised_experts_in_blocks_are_compared() throws IOException {
        String name = "model.layers.0.mlp.experts.down_proj";
        Shape shape = Shape.of(3, 160, 192);
        float[] x = normal(15, 3 * 160 * 192);
        Tensor codes = tensor(name, DType.F8_E4M3FN, shape);
        float[] scales = new float[3 * 2 * 2];
        Arrays.fill(scales, 0.0005f);
        for (int i = 0; i < x.length; i++) {
            int code = Float8Format.E4M3FN.encode(x[i] / 0.0005f, Overflow.SATURATE);
            codes.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
        Path folderOfExperts = Files.createDirectory(folder.resolve("experts"));
        Files.writeString(
                folderOfExperts.resolve("config.json"),
                "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}}");
        Tensor scale = f32(name + "_scale_inv", Shape.of(3, 2, 2), scales);
        SafetensorsWriter.write(
                folderOfExperts.resolve("model.safetensors"),
                Map.of(codes.name(), codes, scale.name(), scale),
                Map.of());
        ModelDiff diff = diff(save("a", List.of(bf16(name, shape, x))), folderOfExperts);
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.tensors().getFirst().closeness(), diff.toString());
    }

    @Test
    void codes_without_a_scale_are_never_compared_as_numbers() throws IOException {
        float[] x = normal(12, ROWS * COLS);
        Shape shape = Shape.of(ROWS, COLS);
        Tensor other = f32("other.bias", Shape.of(1), 1);
        Path a = save("a", List.of(bf16(WEIGHT, shape, x), other));
        Path b = save(
                "b", List.of(perChannel(WEIGHT, shape, x, rowScales(x, COLS)).getFirst(), other));
        ModelDiff diff = diff(a, b);
        assertEquals(1, diff.uncomparable().size());
        assertEquals(WEIGHT, diff.uncomparable().getFirst().a());
        assertTrue(diff.uncomparable().getFirst().reason().contains("without a scale"));
        assertEquals(List.of(), diff.onlyA());
        assertEquals(0.5, diff.summary().matched());
        assertFalse(diff.sameValues());
    }

    @Test
    void a_scale_that_is_no_number_makes_its_tensor_uncomparable() throws IOException {
        float[] x = normal(13, ROWS * COLS);
        float[] scales = rowScales(x, COLS);
        Shape shape = Shape.of(ROWS, COLS);
        Tensor other = f32("other.bias", Shape.of(1), 1);
        Tensor codes = perChannel(WEIGHT, shape, x, scales).getFirst();
        scales[3] = Float.NaN;
        Path a = save("a", List.of(bf16(WEIGHT, shape, x), other));
        Path b = save("b", List.of(codes, f32(WEIGHT + "_scale", Shape.of(ROWS, 1), scales), other));
        ModelDiff diff = diff(a, b);
        assertEquals(1, diff.uncomparable().size(), diff.toString());
        assertTrue(diff.uncomparable().getFirst().reason().contains("NaN"), diff.toString());
    }

    @Test
    void shapes_that_differ_are_listed() throws IOException {
        Tensor other = f32("other.bias", Shape.of(1), 1);
        ModelDiff diff = diff(
                save("a", List.of(f32("w", Shape.of(4), 1, 2, 3, 4), other)),
                save("b", List.of(f32("w", Shape.of(3), 1, 2, 3), other)));
        assertEquals(List.of(new ModelDiff.Uncomparable("w", "w", "shapes differ: [4] and [3]")), diff.uncomparable());
        assertEquals(1, diff.tensors().size());
    }

    @Test
    void models_without_a_common_weight_are_refused() throws IOException {
        Path a = save("a", List.of(f32("a.bias", Shape.of(2), 1, 2)));
        Path b = save("b", List.of(f32("b.weight", Shape.of(3), 1, 2, 3)));
        assertThrows(InvalidDataException.class, () -> diff(a, b));
    }

    @Test
    void weights_of_one_side_are_listed() throws IOException {
        Tensor both = f32("both.bias", Shape.of(1), 1);
        ModelDiff diff = diff(
                save("a", List.of(both, f32("first.bias", Shape.of(1), 1))),
                save("b", List.of(both, f32("second.scale_x", Shape.of(2), 1, 2))));
        assertEquals(List.of("first.bias"), diff.onlyA());
        assertEquals(List.of("second.scale_x"), diff.onlyB());
        assertFalse(diff.identical());
    }

    @Test
    void a_pattern_chooses_and_one_that_matches_nothing_is_refused() throws IOException {
        Path a = save("a", List.of(f32("x.bias", Shape.of(1), 1), f32("y.bias", Shape.of(1), 1)));
        ModelDiff diff =
                TensorComparison.compare(a, a, CompareOptions.defaults().withOnly(Pattern.compile("^x")));
        assertEquals(1, diff.tensors().size());
        CompareOptions none = CompareOptions.defaults().withOnly(Pattern.compile("nothing"));
        assertThrows(InvalidOptionException.class, () -> TensorComparison.compare(a, a, none));
    }

    @Test
    void a_pattern_chooses_pairs_and_not_weights_that_then_find_no_other() throws IOException {
        Path a = save("a", List.of(f32("model.x.bias", Shape.of(2), 1, 2), f32("model.y.bias", Shape.of(2), 3, 4)));
        Path b = save("b", List.of(f32("x.bias", Shape.of(2), 1, 5), f32("y.bias", Shape.of(2), 3, 4)));
        for (String only : List.of("^model.x", "^x")) {
            CompareOptions options = CompareOptions.defaults().withOnly(Pattern.compile(only));
            ModelDiff diff = TensorComparison.compare(a, b, options);
            assertEquals(
                    List.of("model.x.bias"),
                    diff.tensors().stream().map(TensorDiff::a).toList(),
                    only);
            assertEquals("x.bias", diff.tensors().getFirst().b());
            assertEquals(1, diff.summary().matched());
            assertEquals(List.of(), diff.onlyA());
            assertEquals(List.of(), diff.onlyB());
        }
    }

    @Test
    void what_is_not_there_or_no_model_is_said() throws IOException {
        Path a = save("a", List.of(f32("x.bias", Shape.of(1), 1)));
        Path text = Files.writeString(folder.resolve("notes.txt"), "just some words, and a few more of them");
        assertThrows(NoSuchFileException.class, () -> diff(a, folder.resolve("none")));
        assertThrows(UnsupportedModelException.class, () -> diff(a, text));
    }

    @Test
    void two_layouts_of_the_same_scheme_are_near_each_other() throws IOException {
        ModelDiff diff = diff(
                TESTDATA.resolve("checkpoints/foreign/ct-fp8-weights-only"),
                TESTDATA.resolve("checkpoints/foreign/ct-fp8-dynamic"));
        assertTrue(diff.identical(), diff.summary().toString());
        ModelDiff other = diff(
                TESTDATA.resolve("checkpoints/foreign/torchao-fp8-dynamic"),
                TESTDATA.resolve("checkpoints/foreign/torchao-fp8-weights-only"));
        assertTrue(other.identical(), other.summary().toString());
    }

    @Test
    void an_exported_graph_has_the_weights_of_its_checkpoint() throws IOException {
        ModelDiff diff = diff(
                TESTDATA.resolve("models/tiny-hf/llama"),
                TESTDATA.resolve("models/tiny-onnx/llama_eager_script14.onnx"));
        assertTrue(diff.sameValues(), diff.summary() + " " + diff.onlyA() + diff.onlyB() + diff.uncomparable());
        assertTrue(diff.tensors().stream().anyMatch(TensorDiff::transposed));
        ModelDiff back = diff(
                TESTDATA.resolve("models/tiny-onnx/bert_eager_script17.onnx"), TESTDATA.resolve("models/tiny-hf/bert"));
        assertEquals(0, back.summary().differing());
        assertEquals(List.of(), back.onlyB());
    }

    @Test
    void the_page_holds_the_data_and_asks_nobody() throws IOException {
        Path a = save("a", List.of(f32("</script>.bias", Shape.of(1), 1)));
        Path page = folder.resolve("diff.html");
        DiffReport.write(diff(a, a), page);
        String html = Files.readString(page);
        assertTrue(html.contains("default-src 'none'"));
        assertTrue(html.contains("<main class=\"broad\">"), "the page uses the width");
        assertTrue(html.contains("td.scheme { white-space: nowrap; }"), "a scheme stays on one line");
        assertTrue(html.contains("min: decibelFloor("), "bars begin near their values");
        assertFalse(html.contains("</script>.bias"), "a name must not end the element");
        int from = html.indexOf("type=\"application/json\">") + "type=\"application/json\">".length();
        String json = html.substring(from, html.indexOf("</script>", from));
        assertEquals(
                "</script>.bias",
                new ObjectMapper().readTree(json).get("tensors").get(0).get("a").asText());
    }
}
