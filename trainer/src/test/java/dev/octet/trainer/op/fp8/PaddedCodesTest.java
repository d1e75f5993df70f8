package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Operand;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Size;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Task;
import dev.octet.trainer.op.product.CudaProducts;
import dev.octet.trainer.op.product.PaddingRule;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Products of codes with lengths that FP8 units do not take: widened to rows that are multiples of 16 bytes, or as long as they are. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PaddedCodesTest {
    /**
     * A product.
     *
     * @param blockRows rows and columns of the codes that share a scale; 0 for all
     * @param onCodes false: what codes stand for is rounded to BF16 first
     */
    record Form(
            boolean transposeA,
            boolean transposeB,
            DType result,
            int blockRows,
            int blockCols,
            boolean onCodes,
            boolean leftIsCoded,
            boolean biased,
            boolean adds) {}

    static Stream<Form> forms() {
        return Stream.of(
                new Form(false, true, DType.BF16, 0, 0, true, true, true, false),
                new Form(false, true, DType.F16, 0, 0, true, true, false, false),
                new Form(false, false, DType.F32, 0, 0, true, true, false, true),
                new Form(false, false, DType.BF16, 0, 0, true, true, false, true),
                new Form(true, false, DType.F32, 0, 0, true, true, false, false),
                new Form(false, true, DType.BF16, 1, 0, true, true, true, false),
                new Form(false, true, DType.BF16, 16, 16, true, true, false, false),
                new Form(false, true, DType.BF16, 16, 16, true, true, false, true),
                new Form(true, false, DType.F32, 1, 7, true, true, false, true),
                new Form(false, false, DType.F16, 1, 16, true, true, true, false),
                new Form(false, true, DType.BF16, 0, 0, false, true, false, false),
                new Form(false, true, DType.BF16, 0, 0, false, false, false, true),
                new Form(true, false, DType.F32, 0, 0, false, false, false, false));
    }

    @ParameterizedTest
    @MethodSource("forms")
    void padded_rows_give_the_same_bits(Form form) {
        // columns alone keep the last one from FP8 units
        for (Size size :
                new Size[] {new Size(19, 67, 45), new Size(3, 1029, 9), new Size(1, 1, 1), new Size(19, 67, 48)}) {
            double[] plain = run(form, size, PaddingRule.NEVER, TestGpus.host());
            assertTrue(Arrays.stream(plain).allMatch(Double::isFinite), "a result is not finite");
            assertArrayEquals(plain, run(form, size, PaddingRule.ALWAYS, TestGpus.host()), 0.0);
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("forms")
    void padded_rows_give_the_same_numbers_on_the_gpu(Form form) {
        Size size = new Size(512, 5027, 768);
        double[] plain = run(form, size, PaddingRule.NEVER, TestGpus.shared());
        double[] padded = run(form, size, PaddingRule.STANDARD, TestGpus.shared());
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < plain.length; i++) {
            difference += (plain[i] - padded[i]) * (plain[i] - padded[i]);
            norm += plain[i] * plain[i];
        }
        assertTrue(norm > 0, "nothing was computed");
        // another order of sums, rounded to BF16 where the result is
        assertTrue(Math.sqrt(difference / norm) <= 3e-3, "relative difference");
    }

    /** Rows that begin at any byte, and columns on both sides of a block's 128. */
    @Tag("kernels")
    @Test
    void rows_of_any_length_are_cast_with_their_transpose() {
        for (DType type : new DType[] {DType.BF16, DType.F16, DType.F32}) {
            for (int[] sides : new int[][] {{5, 1}, {70, 131}, {67, 257}, {3, 300}, {65, 384}, {130, 136}}) {
                double[] values = numbers(sides[0] * sides[1], 7);
                try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
                    CudaTensor x = operands.tensor(type(type, sides), values);
                    CudaTensor quantScale = operands.tensor(type(DType.F32, 1), new double[] {100});
                    CudaTensor codes = operands.empty(type(DType.F8_E5M2, sides));
                    int pitch = Math.toIntExact(CudaCodes.leading(sides[1]));
                    CudaTensor padded = operands.empty(type(DType.F8_E5M2, sides[0], pitch));
                    int groups = Math.toIntExact(CudaCodes.sumRows(sides[0]));
                    CudaTensor sums = operands.empty(type(DType.F32, groups, sides[1]));
                    int leading = Math.toIntExact(CudaCodes.leading(sides[0]));
                    CudaTensor transposed = operands.empty(type(DType.F8_E5M2, sides[1], leading));
                    operands.run(cuda -> CudaCodes.whole(x, Float8Format.E5M2, cuda)
                            .summing(sums.address())
                            .cast(codes.address(), transposed.address(), quantScale.address(), 0, 0));
                    operands.run(cuda -> CudaCodes.whole(x, Float8Format.E5M2, cuda)
                            .padded()
                            .cast(padded.address(), transposed.address(), quantScale.address(), 0, 0));
                    double[] seen = operands.numbers(x);
                    byte[] lying = operands.bytes(codes);
                    byte[] turned = operands.bytes(transposed);
                    byte[] longer = operands.bytes(padded);
                    double[] summed = operands.numbers(sums);
                    for (int j = 0; j < sides[0]; j++) {
                        for (int i = 0; i < pitch; i++) {
                            assertEquals(i < sides[1] ? lying[j * sides[1] + i] : 0, longer[j * pitch + i]);
                        }
                    }
                    for (int i = 0; i < sides[1]; i++) {
                        double all = 0;
                        double magnitude = 0;
                        for (int j = 0; j < sides[0]; j++) {
                            all += seen[j * sides[1] + i];
                            magnitude += Math.abs(seen[j * sides[1] + i]);
                        }
                        for (int g = 0; g < groups; g++) {
                            all -= summed[g * sides[1] + i];
                        }
                        assertEquals(0, all, 1e-6 * magnitude, "sum of column " + i);
                    }
                    for (int i = 0; i < sides[1]; i++) {
                        for (int j = 0; j < leading; j++) {
                            byte expected = j < sides[0]
                                    ? (byte) Float8Format.E5M2.encode(
                                            (float) seen[j * sides[1] + i] * 100f, Overflow.SATURATE)
                                    : 0;
                            assertEquals(expected, turned[i * leading + j]);
                            assertTrue(j >= sides[0] || expected == lying[j * sides[1] + i]);
                        }
                    }
                }
            }
        }
    }

    /** As the gradient of a head's logits is: codes with padded rows, the weight's transposed. */
    @Test
    void padded_rows_of_codes_are_multiplied_as_they_are() {
        Form form = new Form(false, false, DType.BF16, 0, 0, true, true, false, false);
        Size size = new Size(19, 64, 45);
        double[] plain = run(form, size, PaddingRule.NEVER, TestGpus.host());
        CodedMatrix a = coded(form, Float8Format.E5M2, new int[] {size.m(), size.k()});
        CodedMatrix b = coded(form, Float8Format.E4M3FN, new int[] {size.k(), size.n()});
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            Operand dense = operand(operands, a, new int[] {size.m(), size.k()}, 1);
            Operand with = operand(operands, b, new int[] {size.k(), size.n()}, 2);
            byte[] codes = codes(a, 1);
            byte[] rows = new byte[size.m() * 48];
            for (int i = 0; i < size.m(); i++) {
                System.arraycopy(codes, i * size.k(), rows, i * 48, size.k());
            }
            CudaTensor padded = operands.tensor(type(DType.F8_E5M2, size.m(), 48), rows);
            Operand from = Operand.coded(padded.address(), a, dense.scales(), 0, 48);
            CudaTensor d = operands.empty(type(DType.BF16, size.m(), size.n()));
            ProductForm product = new ProductForm(a, b, true, DType.BF16);
            operands.run(cuda -> new CudaScaledProduct(product, cuda)
                    .write(new Task(false, false, size, from, with, null, DType.BF16, d, false, false)));
            assertArrayEquals(plain, operands.numbers(d), 0.0);
        }
    }

    private static double[] run(Form form, Size size, PaddingRule rule, Gpu gpu) {
        int[] left = form.transposeA() ? new int[] {size.k(), size.m()} : new int[] {size.m(), size.k()};
        int[] right = form.transposeB() ? new int[] {size.n(), size.k()} : new int[] {size.k(), size.n()};
        CodedMatrix a = coded(form, Float8Format.E5M2, left);
        CodedMatrix b = coded(form, Float8Format.E4M3FN, right);
        try (CudaOperands operands = new CudaOperands(gpu)) {
            Operand from = form.leftIsCoded()
                    ? operand(operands, a, left, 1)
                    : Operand.plain(operands.tensor(type(DType.BF16, left), numbers(left[0] * left[1], 1)));
            Operand with = operand(operands, b, right, 2);
            CudaTensor bias = form.biased() ? operands.tensor(type(DType.F32, size.n()), numbers(size.n(), 3)) : null;
            OperandType result = type(form.result(), size.m(), size.n());
            CudaTensor d =
                    form.adds() ? operands.tensor(result, numbers(size.m() * size.n(), 4)) : operands.empty(result);
            ProductForm product = new ProductForm(form.leftIsCoded() ? a : null, b, form.onCodes(), DType.BF16);
            operands.run(cuda -> new CudaScaledProduct(product, cuda, new CudaProducts(cuda, rule))
                    .write(new Task(
                            form.transposeA(),
                            form.transposeB(),
                            size,
                            from,
                            with,
                            bias,
                            DType.BF16,
                            d,
                            form.adds(),
                            false)));
            return operands.numbers(d);
        }
    }

    private static CodedMatrix coded(Form form, Float8Format format, int[] sides) {
        Blocks blocks = Blocks.ofMatrix(
                sides[0],
                sides[1],
                form.blockRows() == 0 ? sides[0] : form.blockRows(),
                form.blockCols() == 0 ? sides[1] : form.blockCols());
        return new CodedMatrix(format, blocks, null);
    }

    private static Operand operand(CudaOperands operands, CodedMatrix coded, int[] sides, int seed) {
        byte[] codes = codes(coded, seed);
        double[] scales = numbers(Math.toIntExact(coded.blocks().scaleCount()), 10 + seed);
        CudaTensor elements = operands.tensor(type(coded.format().dtype(), sides), codes);
        CudaTensor factors = operands.tensor(type(DType.F32, scales.length), scales);
        return Operand.coded(elements.address(), coded, factors.address(), 0);
    }

    private static byte[] codes(CodedMatrix coded, int seed) {
        byte[] codes = new byte[Math.toIntExact(coded.blocks().elements())];
        double[] numbers = numbers(codes.length, seed);
        for (int i = 0; i < codes.length; i++) {
            codes[i] = (byte) coded.format().encode((float) (16 * numbers[i]), Overflow.SATURATE);
        }
        return codes;
    }

    private static OperandType type(DType type, int... lengths) {
        return new OperandType(type, lengths.length == 1 ? Shape.of(lengths[0]) : Shape.of(lengths[0], lengths[1]));
    }

    private static double[] numbers(int count, int seed) {
        return new SplittableRandom(seed).doubles(count, -1, 1).toArray();
    }
}
