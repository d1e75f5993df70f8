package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The three products of a language model's head, whose operands are decoded in bands, against the same products of whole operands. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LargeProductTest {
    private static final int ROWS = 256;
    private static final Scratch INPUT = new Scratch();
    private static final int IN = 384;

    /** Neither a multiple of a band nor of 96, and large enough that the gradient and the weight are too. */
    private static final int OUT = 4611;

    private static final Float8Format E4M3 = Float8Format.E4M3FN;
    private static final Float8Format E5M2 = Float8Format.E5M2;

    private final CpuContext cpu = new CpuContext(Parallel.ALONE, Gemms.best());
    private final Arena arena = Arena.ofAuto();

    private static CodedMatrix coded(Float8Format format, int rows, int cols) {
        return new CodedMatrix(format, CodedMatrix.whole(rows, cols), null);
    }

    private CpuTensor empty(DType type, int rows, int cols) {
        OperandType t = new OperandType(type, Shape.of(rows, cols));
        return new CpuTensor(t, arena.allocate(t.byteSize(), 64));
    }

    private CpuTensor random(DType type, int rows, int cols, long seed) {
        CpuTensor t = empty(type, rows, cols);
        SplittableRandom random = new SplittableRandom(seed);
        float[] line = new float[cols];
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < cols; j++) {
                line[j] = (float) random.nextGaussian();
            }
            t.write((long) i * cols, line, 0, cols);
        }
        t.writeNumber(5, Double.NaN);
        return t;
    }

    private MemorySegment codes(Float8Format format, int rows, int cols, long seed) {
        MemorySegment codes = arena.allocate((long) rows * cols, 64);
        new MatrixCodes(CodedMatrix.whole(rows, cols), Parallel.ALONE)
                .encode(random(DType.F32, rows, cols, seed), new float[] {64}, format, codes);
        return codes;
    }

    /** The same operand in one piece, in memory of its own. */
    private Operand whole(Operand banded, int rows, int cols) {
        float[] scales = banded.scales();
        Operand.Band all = banded.band(false, rows, cols, 0, rows);
        MemorySegment copy = arena.allocate(all.bytes().byteSize(), 64);
        copy.copyFrom(all.bytes());
        return new Operand.Whole(banded.type(), copy, scales, banded.format());
    }

    private static ProductForm form(CodedMatrix left, CodedMatrix right) {
        return new ProductForm(left, right, true, DType.BF16);
    }

    private void requireSame(CpuTensor expected, CpuTensor found) {
        assertTrue(
                expected.bytes().mismatch(found.bytes()) < 0,
                "byte " + expected.bytes().mismatch(found.bytes()));
        assertFalse(found.bytes().get(Tensor.I16_LE, 2000) == 0);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void fprop_reads_the_weight_in_bands_of_its_rows_or_columns(boolean transB) {
        CodedMatrix x = coded(E4M3, ROWS, IN);
        CodedMatrix w = transB ? coded(E4M3, OUT, IN) : coded(E4M3, IN, OUT);
        ScaledProduct product = new ScaledProduct(form(x, w), true, transB, cpu);
        Operand left = product.decoded(x, codes(E4M3, ROWS, IN, 1), new float[] {0.3f}, ScaledProduct.LEFT);
        MemorySegment codes = codes(E4M3, transB ? OUT : IN, transB ? IN : OUT, 2);
        Operand right = assertInstanceOf(
                Operand.Coded.class, product.decoded(w, codes, new float[] {0.7f}, ScaledProduct.RIGHT));
        float[] bias = new float[OUT];
        bias[OUT - 1] = 3;
        ScaledProduct.Size size = new ScaledProduct.Size(ROWS, OUT, IN);
        CpuTensor expected = empty(DType.BF16, ROWS, OUT);
        CpuTensor found = empty(DType.BF16, ROWS, OUT);
        Operand all = whole(right, transB ? OUT : IN, transB ? IN : OUT);
        product.compute(false, transB, size, left, all, bias, expected, false);
        product.compute(false, transB, size, left, right, bias, found, false);
        requireSame(expected, found);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void dgrad_reads_the_gradient_and_the_weight_in_bands(boolean accumulate) {
        CodedMatrix dy = coded(E5M2, ROWS, OUT);
        CodedMatrix w = coded(E4M3, OUT, IN);
        ScaledProduct product = new ScaledProduct(form(dy, w), true, false, cpu);
        Operand left = assertInstanceOf(
                Operand.Rounded.class, product.rounded(dy, random(DType.BF16, ROWS, OUT, 3), new float[] {32}));
        Operand right = product.decoded(w, codes(E4M3, OUT, IN, 4), new float[] {0.7f}, ScaledProduct.RIGHT);
        ScaledProduct.Size size = new ScaledProduct.Size(ROWS, IN, OUT);
        CpuTensor expected = random(DType.BF16, ROWS, IN, 5);
        CpuTensor found = random(DType.BF16, ROWS, IN, 5);
        product.compute(false, false, size, whole(left, ROWS, OUT), whole(right, OUT, IN), null, expected, accumulate);
        product.compute(false, false, size, left, right, null, found, accumulate);
        requireSame(expected, found);
    }

    @Test
    void wgrad_reads_the_gradient_in_bands_of_its_columns_and_as_the_right_operand() {
        CodedMatrix dy = coded(E5M2, ROWS, OUT);
        CodedMatrix x = coded(E4M3, ROWS, IN);
        ScaledProduct product = new ScaledProduct(form(dy, x), false, false, cpu);
        Operand up = product.rounded(dy, random(DType.F32, ROWS, OUT, 6), new float[] {32});
        Operand input = product.decoded(x, codes(E4M3, ROWS, IN, 7), new float[] {0.4f}, INPUT);
        Operand all = whole(up, ROWS, OUT);
        CpuTensor expected = empty(DType.F32, OUT, IN);
        CpuTensor found = empty(DType.F32, OUT, IN);
        ScaledProduct.Size size = new ScaledProduct.Size(OUT, IN, ROWS);
        product.compute(true, false, size, all, input, null, expected, false);
        product.compute(true, false, size, up, input, null, found, false);
        requireSame(expected, found);
        CpuTensor across = empty(DType.F32, IN, OUT);
        CpuTensor foundAcross = empty(DType.F32, IN, OUT);
        ScaledProduct.Size other = new ScaledProduct.Size(IN, OUT, ROWS);
        product.compute(true, false, other, input, all, null, across, false);
        product.compute(true, false, other, input, up, null, foundAcross, false);
        requireSame(across, foundAcross);
    }
}
