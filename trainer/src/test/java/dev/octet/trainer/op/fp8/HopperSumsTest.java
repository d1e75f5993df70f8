package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.TinyRun;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Sums of FP8 units against testdata/golden/fp8-sums.safetensors, which an H200 computed: d = a·bᵀ. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HopperSumsTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden", "fp8-sums.safetensors");

    @TestFactory
    Stream<DynamicTest> results_have_the_bits_of_a_GPU() throws IOException {
        List<String> names;
        try (ModelFile golden = ModelFile.open(GOLDEN)) {
            names = golden.model().tensors().keySet().stream()
                    .filter(n -> n.startsWith("d."))
                    .toList();
        }
        assertTrue(names.size() >= 44, names.toString());
        return names.stream().map(name -> dynamicTest(name, () -> check(name)));
    }

    private static void check(String name) {
        try (ModelFile golden = ModelFile.open(GOLDEN);
                Arena arena = Arena.ofConfined()) {
            String operands = name.substring(2, name.lastIndexOf('.'));
            Tensor expected = golden.model().tensor(name);
            Accumulation accumulation = name.endsWith(".split") ? Accumulation.HOPPER_SPLIT : Accumulation.HOPPER_FAST;
            float[] scales = name.endsWith(".scaled") ? new float[] {1.1f, 0.7f} : new float[] {1, 1};
            float[] got = product(
                    golden.model().tensor("a." + operands),
                    golden.model().tensor("b." + operands),
                    scales,
                    accumulation,
                    arena);
            float[] wanted = expected.toFloats();
            for (int i = 0; i < wanted.length; i++) {
                assertEquals(Float.floatToRawIntBits(wanted[i]), Float.floatToRawIntBits(got[i]), "element " + i);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static float[] product(Tensor a, Tensor b, float[] scales, Accumulation accumulation, Arena arena) {
        int m = (int) a.shape().dim(0);
        int n = (int) b.shape().dim(0);
        int k = (int) a.shape().dim(1);
        CodedMatrix left = new CodedMatrix(Float8Format.of(a.dtype()).orElseThrow(), CodedMatrix.whole(m, k), null);
        CodedMatrix right = new CodedMatrix(Float8Format.of(b.dtype()).orElseThrow(), CodedMatrix.whole(n, k), null);
        CpuContext cpu = new CpuContext(Parallel.ALONE, Gemms.best());
        ScaledProduct product =
                new ScaledProduct(new ProductForm(left, right, true, DType.BF16).with(accumulation), true, true, cpu);
        CpuTensor d = new CpuTensor(new OperandType(DType.F32, Shape.of(m, n)), arena.allocate(4L * m * n, 64));
        product.compute(
                false,
                true,
                new ScaledProduct.Size(m, n, k),
                product.decoded(left, a.bytes(), new float[] {scales[0]}, ScaledProduct.LEFT),
                product.decoded(right, b.bytes(), new float[] {scales[1]}, ScaledProduct.RIGHT),
                null,
                d,
                false);
        float[] elements = new float[m * n];
        d.read(0, elements, 0, elements.length);
        return elements;
    }

    @Test
    void sums_in_F32_are_others() throws IOException {
        try (ModelFile golden = ModelFile.open(GOLDEN);
                Arena arena = Arena.ofConfined()) {
            Tensor a = golden.model().tensor("a.f8_e4m3fn.normal.512");
            Tensor b = golden.model().tensor("b.f8_e4m3fn.normal.512");
            float[] one = {1, 1};
            Map<Accumulation, Double> errors = new EnumMap<>(Accumulation.class);
            float[] exact = product(a, b, one, Accumulation.F32, arena);
            for (Accumulation accumulation : Accumulation.values()) {
                float[] got = product(a, b, one, accumulation, arena);
                double error = 0;
                for (int i = 0; i < got.length; i++) {
                    error += Math.abs(got[i] - exact[i]) / got.length;
                }
                errors.put(accumulation, error);
            }
            double split = requireNonNull(errors.get(Accumulation.HOPPER_SPLIT));
            double fast = requireNonNull(errors.get(Accumulation.HOPPER_FAST));
            assertTrue(split > 0);
            assertTrue(fast > split, "adding in F32 every 128 products loses less: " + fast + ", " + split);
        }
    }

    private static Map<String, byte[]> steps(Fp8Settings settings, int threads) throws IOException {
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = CpuDevice.of(threads)) {
            return run.steps(2, new Fp8Policy(Autocast.bf16(), settings), ActivationSettings.NONE, device);
        }
    }

    @Test
    void steps_of_a_model_have_other_sums_the_same_on_any_number_of_threads() throws IOException {
        Fp8Settings f32 = Fp8Settings.of(DelayedScaling.DEFAULT);
        Map<String, byte[]> plain = steps(f32, 1);
        Map<String, byte[]> one = steps(f32.accumulatingLikeHopper(), 1);
        Map<String, byte[]> three = steps(f32.accumulatingLikeHopper(), 3);
        boolean differ = false;
        for (Map.Entry<String, byte[]> e : one.entrySet()) {
            assertArrayEquals(e.getValue(), three.get(e.getKey()), e.getKey());
            differ |= !Arrays.equals(e.getValue(), plain.get(e.getKey()));
        }
        assertTrue(differ);
    }
}
