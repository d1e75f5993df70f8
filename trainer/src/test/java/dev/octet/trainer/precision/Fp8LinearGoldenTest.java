package dev.octet.trainer.precision;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.FormatPair;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.recipe.TrainingRecipe.BlockScaling;
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.recipe.TrainingRecipe.Mxfp8;
import dev.octet.quant.recipe.TrainingRecipe.Rowwise;
import dev.octet.quant.recipe.TrainingRecipe.RowwiseWithGwHp;
import dev.octet.quant.recipe.TrainingRecipe.Tensorwise;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Programs of one Linear against testdata/golden/training/fp8_linear, which torch made from the recipes' formulas. */
@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8LinearGoldenTest {
    private static final Path FOLDER =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "fp8_linear");

    /** A golden file and how it was made; with {@code cached}, a weight is quantised for every second step only. */
    private record Case(String file, TrainingRecipe recipe, boolean bf16, int steps, boolean cached) {}

    private static final List<Case> CASES = List.of(
            new Case("delayed-hybrid", delayed(0, FormatPair.HYBRID, 4, Algorithm.MAX), false, 5, false),
            new Case("delayed-e4m3-recent", delayed(1, FormatPair.E4M3, 3, Algorithm.MOST_RECENT), true, 4, false),
            new Case("delayed-cached", delayed(0, FormatPair.HYBRID, 1024, Algorithm.MAX), false, 4, true),
            new Case("current", CurrentScaling.DEFAULT, false, 1, false),
            new Case(
                    "current-pow2-e4m3",
                    new CurrentScaling(true, FormatPair.E4M3, 0, BackwardOverride.NONE),
                    true,
                    1,
                    false),
            new Case("block", BlockScaling.DEFAULT, false, 1, false),
            new Case(
                    "block-f32",
                    new BlockScaling(true, FormatPair.E4M3, 0, 1, 2, 1, BackwardOverride.NONE),
                    true,
                    1,
                    false),
            new Case("mxfp8", Mxfp8.DEFAULT, false, 1, false),
            new Case("tensorwise", Tensorwise.DEFAULT, true, 1, false),
            new Case("rowwise", new Rowwise(), false, 1, false),
            new Case("rowwise_with_gw_hp", new RowwiseWithGwHp(), true, 1, false));

    private static DelayedScaling delayed(int margin, FormatPair format, int length, Algorithm algorithm) {
        return new DelayedScaling(margin, format, length, algorithm, true, true, false);
    }

    /** {@code qat} is Octet's own, without a library to hold it to; its exported files hold it to ONNX Runtime. */
    @Test
    void every_recipe_of_a_library_has_a_golden_file() {
        Set<String> missing = new TreeSet<>(Recipes.TRAINING.keySet());
        CASES.forEach(c -> missing.remove(c.recipe().name()));
        assertEquals(Set.of("deployed", "qat"), missing);
    }

    @TestFactory
    Stream<DynamicTest> the_processor_gives_the_bits_of_codes_and_scales_and_the_sums() {
        return CASES.stream()
                .map(c -> dynamicTest(c.file(), () -> {
                    try (Device device = CpuDevice.of(2)) {
                        check(c, device, true, true);
                    }
                }));
    }

    @TestFactory
    Stream<DynamicTest> a_weight_that_lies_the_other_way_round_gives_the_same_sums() {
        return CASES.stream()
                .map(c -> dynamicTest(c.file(), () -> {
                    try (Device device = CpuDevice.of(1)) {
                        check(c, device, false, false);
                    }
                }));
    }

    /** On a GPU that multiplies codes, and on one that widens them. */
    @TestFactory
    Stream<DynamicTest> the_kernels_give_the_bits_of_codes_and_scales_and_the_sums() {
        return CASES.stream()
                .flatMap(c -> Stream.of(90, 80)
                        .flatMap(capability -> Stream.of(true, false)
                                .map(transB -> dynamicTest(
                                        c.file() + ", " + capability + (transB ? "" : ", the other way round"), () -> {
                                            try (Device device = TestGpus.hostDevice(capability)) {
                                                check(c, device, transB, transB);
                                            }
                                        }))));
    }

    /** Codes, scales and histories to the bit; sums of codes as near as FP8 units add up. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> the_gpu_gives_the_bits_of_codes_and_scales_and_the_sums() {
        return CASES.stream()
                .map(c -> dynamicTest(c.file(), () -> {
                    try (Device device = TestGpus.realDevice()) {
                        boolean units = device.multipliesFp8() && multipliesCodesForWgrad(c.recipe());
                        check(c, device, new How(true, true, units ? OF_FP8_UNITS : OF_F32));
                    }
                }));
    }

    /**
     * Whether wgrad is a product of codes where there are FP8 units. With these shapes fprop and dgrad never are: the number of terms of
     * their sums is no multiple of 16, while wgrad's is padded.
     */
    private static boolean multipliesCodesForWgrad(TrainingRecipe recipe) {
        return !(recipe instanceof Mxfp8 || recipe instanceof RowwiseWithGwHp);
    }

    @Test
    void the_tolerance_of_fp8_units_holds_for_wgrad_alone() {
        List<Case> onUnits =
                CASES.stream().filter(c -> multipliesCodesForWgrad(c.recipe())).toList();
        assertFalse(onUnits.isEmpty());
        for (Case c : onUnits) {
            try (ModelFile file = ModelFile.open(FOLDER.resolve(c.file() + ".safetensors"))) {
                Shape x = file.model().tensor("steps.0.x").shape();
                long out = file.model().tensor("steps.0.b").shape().dim(0);
                assertTrue(x.dim(1) % 16 != 0 && out % 16 != 0, c.file());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    @TestFactory
    Stream<DynamicTest> the_reference_gives_the_same_sums() {
        return CASES.stream()
                .map(c -> dynamicTest(c.file(), () -> {
                    try (Device device = new ReferenceDevice()) {
                        check(c, device, true, false);
                    }
                }));
    }

    /** Sums in F32 of up to 140 terms, relative to the largest result. */
    private static final double OF_F32 = 2e-6;

    /**
     * FP8 units of Ada and Hopper align products to the largest of a group and cut them off 13 bits behind it (DeepSeek-V3, arXiv:2412.19437,
     * section 3.5.2): 2^-13 = 1.2e-4 of the largest result, several times where fast sums add up.
     */
    private static final double OF_FP8_UNITS = 5e-4;

    /**
     * How a case is run.
     *
     * @param transB whether the weight lies as [out, in]
     * @param codes whether codes and scales are compared, too
     * @param wgrad tolerance of the weight's gradient, relative to its largest element
     */
    private record How(boolean transB, boolean codes, double wgrad) {}

    private static void check(Case c, Device device, boolean transB, boolean codes) throws IOException {
        check(c, device, new How(transB, codes, OF_F32));
    }

    private static void check(Case c, Device device, How how) throws IOException {
        try (ModelFile file = ModelFile.open(FOLDER.resolve(c.file() + ".safetensors"))) {
            Model golden = file.model();
            int rows = (int) golden.tensor("steps.0.x").shape().dim(0);
            int in = (int) golden.tensor("steps.0.x").shape().dim(1);
            int out = (int) golden.tensor("steps.0.b").shape().dim(0);
            Autocast base = c.bf16() ? Autocast.bf16() : Autocast.fp32();
            Fp8Policy policy = new Fp8Policy(base, Fp8Settings.of(c.recipe()));
            try (OneLinear linear = new OneLinear(device, policy, rows, in, out, how.transB(), true)) {
                if (how.codes()) {
                    linear.watch("");
                }
                for (int i = 0; i < c.steps(); i++) {
                    step(c, golden, i, linear, how);
                }
            }
        }
    }

    private static void step(Case c, Model golden, int i, OneLinear linear, How how) {
        boolean transB = how.transB();
        String at = "steps." + i + ".";
        float[] w = floats(golden, at + "w");
        int out = (int) golden.tensor(at + "b").shape().dim(0);
        if (!c.cached() || i % 2 == 0) {
            linear.prepare(transB ? w : transposed(w, out), floats(golden, at + "b"));
        }
        float[] y = linear.forward(floats(golden, at + "x"));
        Map<String, float[]> gradients = linear.backward(floats(golden, at + "dy"));
        // in BF16 the result is rounded to eight bits
        double tolerance = c.bf16() ? 0x1p-8 : OF_F32;
        assertNear(at + "y", floats(golden, at + "y"), y, tolerance);
        assertNear(at + "dx", floats(golden, at + "dx"), get(gradients, "x"), tolerance);
        float[] dw = get(gradients, "w");
        assertNear(at + "dw", floats(golden, at + "dw"), transB ? dw : transposed(dw, dw.length / out), how.wgrad());
        assertNear(at + "db", floats(golden, at + "db"), get(gradients, "b"), OF_F32);
        if (how.codes()) {
            checkCodes(c, golden, at, linear);
        }
        if (c.recipe().isDelayed()) {
            checkState(golden, at, "x", "fp8.layer.input", linear);
            checkState(golden, at, "w", "fp8.w.weight", linear);
            checkState(golden, at, "dy", "fp8.layer.grad_output", linear);
        }
    }

    private static void checkCodes(Case c, Model golden, String at, OneLinear linear) {
        String kind = "fp8:" + c.recipe().name() + ":" + (c.recipe().isDelayed() ? "" : "fprop:");
        String x = c.bf16() ? "cast:bf16:x" : "x";
        assertArrayEquals(bytes(golden, at + "x_codes"), linear.seen(kind + x), at + "x_codes");
        assertArrayEquals(bytes(golden, at + "w_codes"), linear.seen(kind + "w"), at + "w_codes");
        assertArrayEquals(bytes(golden, at + "x_scale"), linear.seen("scale:" + kind + x), at + "x_scale");
        assertArrayEquals(bytes(golden, at + "w_scale"), linear.seen("scale:" + kind + "w"), at + "w_scale");
    }

    private static void checkState(Model golden, String at, String tensor, String slot, OneLinear linear) {
        assertArrayEquals(floats(golden, at + tensor + "_quant_scale"), linear.lasting(slot + ".quant_scale"), slot);
        assertArrayEquals(floats(golden, at + tensor + "_history"), linear.lasting(slot + ".amax_history"), slot);
    }

    private static float[] get(Map<String, float[]> map, String name) {
        float[] value = map.get(name);
        if (value == null) {
            throw new AssertionError("no gradient of " + name);
        }
        return value;
    }

    private static float[] floats(Model model, String name) {
        Tensor t = model.tensor(name);
        assertEquals(DType.F32, t.dtype(), name);
        return t.toFloats();
    }

    private static byte[] bytes(Model model, String name) {
        return model.tensor(name).bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    private static float[] transposed(float[] x, int rows) {
        int cols = x.length / rows;
        float[] t = new float[x.length];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                t[c * rows + r] = x[r * cols + c];
            }
        }
        return t;
    }

    private static void assertNear(String what, float[] expected, float[] actual, double tolerance) {
        assertEquals(expected.length, actual.length, what);
        double largest = 0;
        for (float e : expected) {
            largest = Math.max(largest, Math.abs(e));
        }
        for (int i = 0; i < expected.length; i++) {
            assertEquals(expected[i], actual[i], tolerance * largest, what + " [" + i + "], largest " + largest);
        }
    }
}
