package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Operand;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Size;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Task;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The three products of a Linear on codes with unequal scales: FP8 units against the same codes widened, which is also what happens where the
 * library has no algorithm for the codes.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8ProductTest {
    /** FP8 units of Hopper keep 13 bits of a sum behind the largest product of a group; the types of results have fewer or as many. */
    private static final double TOLERANCE = 1e-3;

    /** Of fprop, which keeps its sums in them: 1.1e-3 for 3072 products on an H100, and with results in BF16, rounded both times, 2.2e-3. */
    private static final double FAST_TOLERANCE = 3e-3;

    private static final float LEFT_SCALE = 3;
    private static final float RIGHT_SCALE = 0.25f;

    /** The products of x [rows, in], w [out, in] and dy [rows, out]. */
    enum Kind {
        FPROP_WITH_BIAS(Float8Format.E4M3FN, DType.BF16, false),
        FPROP_IN_F32(Float8Format.E4M3FN, DType.F32, false),
        DGRAD_IN_BF16(Float8Format.E5M2, DType.BF16, false),
        DGRAD_IN_F32(Float8Format.E5M2, DType.F32, false),
        DGRAD_ADDED(Float8Format.E5M2, DType.F32, true),
        WGRAD(Float8Format.E5M2, DType.F32, false),
        WGRAD_ADDED(Float8Format.E5M2, DType.F32, true),
        FPROP_WITH_A_SCALE_PER_ROW(Float8Format.E4M3FN, DType.BF16, false),
        FPROP_OF_BLOCKS(Float8Format.E4M3FN, DType.BF16, false),
        FPROP_OF_BLOCKS_WITH_BIAS(Float8Format.E4M3FN, DType.BF16, false),
        FPROP_OF_BLOCKS_IN_F32(Float8Format.E4M3FN, DType.F32, false),
        DGRAD_OF_BLOCKS(Float8Format.E5M2, DType.BF16, false),
        DGRAD_OF_BLOCKS_ADDED(Float8Format.E5M2, DType.F32, true),
        WGRAD_OF_BLOCKS(Float8Format.E5M2, DType.F32, false),
        WGRAD_OF_BLOCKS_ADDED(Float8Format.E4M3FN, DType.F32, true),
        WGRAD_OF_BLOCKS_AND_SQUARES(Float8Format.E4M3FN, DType.F32, false),
        WGRAD_OF_SQUARES_AND_BLOCKS(Float8Format.E4M3FN, DType.F32, false);

        private final Float8Format left;
        private final DType result;
        private final boolean added;

        Kind(Float8Format left, DType result, boolean added) {
            this.left = left;
            this.result = result;
            this.added = added;
        }

        boolean isFprop() {
            return name().startsWith("FPROP");
        }

        boolean isWgrad() {
            return name().startsWith("WGRAD");
        }

        boolean isOfBlocks() {
            return name().contains("BLOCKS");
        }

        /** What codes of an operand, which has these sides, share a scale: all, a row, a run along the sums or a square. */
        Blocks blocks(int[] sides, boolean isLeft) {
            if (this == FPROP_WITH_A_SCALE_PER_ROW) {
                return Blocks.ofMatrix(sides[0], sides[1], 1, sides[1]);
            } else if (!isOfBlocks()) {
                return CodedMatrix.whole(sides[0], sides[1]);
            }
            boolean squares = switch (this) {
                case WGRAD_OF_BLOCKS_AND_SQUARES -> !isLeft;
                case WGRAD_OF_SQUARES_AND_BLOCKS -> isLeft;
                default -> !isWgrad() && !isLeft;
            };
            int b = ScaleMode.BLOCK;
            return Blocks.ofMatrix(sides[0], sides[1], squares || isWgrad() ? b : 1, squares || !isWgrad() ? b : 1);
        }
    }

    /** A Linear with {@code rows} rows of input. */
    record Lengths(int rows, int in, int out) {
        Size size(Kind kind) {
            return kind.isFprop()
                    ? new Size(rows, out, in)
                    : kind.isWgrad() ? new Size(out, in, rows) : new Size(rows, in, out);
        }
    }

    private static final Lengths SMALL = new Lengths(96, 256, 128);
    private static final Lengths LARGE = new Lengths(512, 3072, 768);

    /** Of blocks of 128: whole ones and parts, and numbers of them that are multiples of 4 or not. */
    private static final Lengths BLOCKS = new Lengths(272, 656, 512);

    @ParameterizedTest
    @EnumSource(Kind.class)
    void products_of_codes_are_those_of_the_widened_codes(Kind kind) {
        check(kind, kind.isOfBlocks() ? BLOCKS : SMALL, TestGpus::host);
    }

    @ParameterizedTest
    @CsvSource({
        "FPROP_OF_BLOCKS_WITH_BIAS, PER_RUN_AND_SQUARE",
        "DGRAD_OF_BLOCKS, PER_RUN_AND_SQUARE",
        "WGRAD_OF_BLOCKS, PER_RUN",
        "WGRAD_OF_BLOCKS_AND_SQUARES, PER_RUN_AND_SQUARE",
        "WGRAD_OF_SQUARES_AND_BLOCKS, PER_SQUARE_AND_RUN",
    })
    void scales_of_blocks_are_the_librarys_where_it_takes_them_and_the_widened_codes_elsewhere(
            Kind kind, ScaleMode mode) {
        List<CudaProduct> byLibrary = new ArrayList<>();
        double[] library = run(kind, BLOCKS, TestGpus.remembering(TestGpus.host(), byLibrary));
        List<CudaProduct> widened = new ArrayList<>();
        Gpu older = TestGpus.withoutScalesPerVector(TestGpus.remembering(TestGpus.host(), widened));
        double[] numbers = run(kind, BLOCKS, older);
        assertEquals(mode, byLibrary.getFirst().scaleMode());
        assertEquals(DType.BF16, widened.getFirst().a().type());
        assertFalse(byLibrary.getFirst().fastSums());
        // both round to BF16 in the end
        near("widened codes", kind.result == DType.BF16 ? 2e-3 : 1e-6, numbers, library);
    }

    @Test
    void scales_of_vectors_are_the_librarys_where_it_takes_them_and_behind_the_sums_elsewhere() {
        Kind kind = Kind.FPROP_WITH_A_SCALE_PER_ROW;
        List<CudaProduct> byLibrary = new ArrayList<>();
        double[] library = run(kind, SMALL, TestGpus.remembering(TestGpus.host(), byLibrary));
        List<CudaProduct> bySums = new ArrayList<>();
        Gpu older = TestGpus.withoutScalesPerVector(TestGpus.remembering(TestGpus.host(), bySums));
        double[] sums = run(kind, SMALL, older);
        assertEquals(ScaleMode.PER_VECTOR, byLibrary.getFirst().scaleMode());
        assertEquals(DType.BF16, byLibrary.getFirst().d().type());
        assertEquals(DType.F32, bySums.getFirst().d().type());
        near("scales behind the sums", 1e-6, sums, library);
        near("sums in F64", 2 * FAST_TOLERANCE, expected(kind, SMALL), library);
    }

    static Stream<org.junit.jupiter.params.provider.Arguments> all() {
        return Stream.of(SMALL, LARGE, BLOCKS)
                .flatMap(l -> Stream.of(Kind.values()).map(k -> org.junit.jupiter.params.provider.Arguments.of(k, l)));
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("all")
    void products_of_codes_on_the_gpu_are_those_of_the_widened_codes(Kind kind, Lengths lengths) {
        Gpu gpu = TestGpus.shared();
        assumeTrue(gpu.info().capability() >= 89, "this GPU has no FP8");
        check(kind, lengths, () -> gpu);
    }

    private static void check(Kind kind, Lengths lengths, Supplier<Gpu> gpus) {
        AtomicInteger onCodes = new AtomicInteger();
        double[] codes = run(kind, lengths, TestGpus.countingCodes(gpus.get(), onCodes));
        assertEquals(1, onCodes.get(), "products of codes");
        double[] widened = run(kind, lengths, TestGpus.withoutCodes(gpus.get()));
        double most = kind.isFprop() ? FAST_TOLERANCE : TOLERANCE;
        near("widened codes", most, widened, codes);
        if (!lengths.equals(LARGE)) {
            // the type of a result in BF16 has 8 bits, a relative error of 2^-9 / sqrt(3) on average
            near("sums in F64", 2 * most, expected(kind, lengths), codes);
        }
    }

    private static void near(String what, double most, double[] reference, double[] got) {
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < reference.length; i++) {
            difference += (got[i] - reference[i]) * (got[i] - reference[i]);
            norm += reference[i] * reference[i];
        }
        assertTrue(norm > 0, what);
        double relative = Math.sqrt(difference / norm);
        assertTrue(relative <= most, what + ": relative difference " + relative);
    }

    private static byte[] codes(Float8Format format, int count, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        byte[] codes = new byte[count];
        for (int i = 0; i < count; i++) {
            float x = (float) random.nextGaussian() * format.maxValue() / 5;
            codes[i] = (byte) format.encode(x, Overflow.SATURATE);
        }
        return codes;
    }

    private static double[] numbers(int count, int seed, double deviation) {
        SplittableRandom random = new SplittableRandom(seed);
        return random.doubles(count, -deviation, deviation)
                .map(x -> BFloat16.toFloat(BFloat16.fromFloat((float) x)))
                .toArray();
    }

    /** What the codes give stands for itself; results are as large as the products of the formats' numbers. */
    private static double magnitude(Kind kind, Size size) {
        return kind.left.maxValue() / 5 * Float8Format.E4M3FN.maxValue() / 5 * Math.sqrt(size.k());
    }

    /** Rows and columns of the left operand as it lies. */
    private static int[] left(Kind kind, Size size) {
        return kind.isWgrad() ? new int[] {size.k(), size.m()} : new int[] {size.m(), size.k()};
    }

    private static int[] right(Kind kind, Size size) {
        return kind.isFprop() ? new int[] {size.n(), size.k()} : new int[] {size.k(), size.n()};
    }

    /** Those of blocks are such that codes times scales are numbers in BF16. */
    private static double[] scales(Kind kind, Blocks blocks, float scale) {
        double[] all = new double[Math.toIntExact(blocks.scaleCount())];
        for (int i = 0; i < all.length; i++) {
            all[i] = scale * (kind.isOfBlocks() ? Math.scalb(1, i % 5 - 2) : 1 + i % 7);
        }
        return all;
    }

    private static CodedMatrix coded(Kind kind, Float8Format format, int[] sides, boolean isLeft) {
        return new CodedMatrix(format, kind.blocks(sides, isLeft), null);
    }

    private static double[] run(Kind kind, Lengths lengths, Gpu gpu) {
        Size size = lengths.size(kind);
        int[] left = left(kind, size);
        int[] right = right(kind, size);
        CodedMatrix a = coded(kind, kind.left, left, true);
        CodedMatrix b = coded(kind, Float8Format.E4M3FN, right, false);
        try (CudaOperands operands = new CudaOperands(gpu)) {
            CudaTensor as = operands.tensor(type(kind.left.dtype(), left), codes(kind.left, left[0] * left[1], 1));
            CudaTensor bs = operands.tensor(
                    type(Float8Format.E4M3FN.dtype(), right), codes(Float8Format.E4M3FN, right[0] * right[1], 2));
            double[] leftScales = scales(kind, a.blocks(), LEFT_SCALE);
            double[] rightScales = scales(kind, b.blocks(), RIGHT_SCALE);
            CudaTensor aScales = operands.tensor(type(DType.F32, leftScales.length), leftScales);
            CudaTensor bScales = operands.tensor(type(DType.F32, rightScales.length), rightScales);
            CudaTensor bias = hasBias(kind)
                    ? operands.tensor(type(DType.F32, size.n()), numbers(size.n(), 3, magnitude(kind, size)))
                    : null;
            OperandType result = type(kind.result, size.m(), size.n());
            CudaTensor d = kind.added
                    ? operands.tensor(result, numbers(size.m() * size.n(), 4, magnitude(kind, size)))
                    : operands.empty(result);
            ProductForm form = new ProductForm(a, b, true, DType.BF16);
            operands.run(cuda -> new CudaScaledProduct(form, cuda)
                    .write(new Task(
                            kind.isWgrad(),
                            kind.isFprop(),
                            size,
                            Operand.coded(as.address(), a, aScales.address(), 0),
                            Operand.coded(bs.address(), b, bScales.address(), 0),
                            bias,
                            DType.BF16,
                            d,
                            kind.added,
                            kind.isFprop())));
            return operands.numbers(d);
        }
    }

    private static boolean hasBias(Kind kind) {
        return kind.name().endsWith("WITH_BIAS") || kind == Kind.FPROP_WITH_A_SCALE_PER_ROW;
    }

    private static OperandType type(DType type, int... lengths) {
        return new OperandType(type, lengths.length == 1 ? Shape.of(lengths[0]) : Shape.of(lengths[0], lengths[1]));
    }

    /** By the definition, in F64. */
    private static double[] expected(Kind kind, Lengths lengths) {
        Size size = lengths.size(kind);
        int[] left = left(kind, size);
        int[] right = right(kind, size);
        byte[] a = codes(kind.left, left[0] * left[1], 1);
        byte[] b = codes(Float8Format.E4M3FN, right[0] * right[1], 2);
        double[] as = numbers(a, kind.left, kind.blocks(left, true), scales(kind, kind.blocks(left, true), LEFT_SCALE));
        double[] bs = numbers(
                b,
                Float8Format.E4M3FN,
                kind.blocks(right, false),
                scales(kind, kind.blocks(right, false), RIGHT_SCALE));
        double[] bias = numbers(size.n(), 3, magnitude(kind, size));
        double[] before = numbers(size.m() * size.n(), 4, magnitude(kind, size));
        double[] d = new double[size.m() * size.n()];
        for (int i = 0; i < size.m(); i++) {
            for (int j = 0; j < size.n(); j++) {
                double sum = 0;
                for (int k = 0; k < size.k(); k++) {
                    int atA = kind.isWgrad() ? k * size.m() + i : i * size.k() + k;
                    int atB = kind.isFprop() ? j * size.k() + k : k * size.n() + j;
                    sum += as[atA] * bs[atB];
                }
                int at = i * size.n() + j;
                d[at] = sum + (hasBias(kind) ? bias[j] : 0) + (kind.added ? before[at] : 0);
            }
        }
        return d;
    }

    /** What codes stand for. */
    private static double[] numbers(byte[] codes, Float8Format format, Blocks blocks, double[] scales) {
        double[] numbers = new double[codes.length];
        for (int i = 0; i < codes.length; i++) {
            long block =
                    i / blocks.cols() / blocks.blockRows() * blocks.gridCols() + i % blocks.cols() / blocks.blockCols();
            numbers[i] = format.decode(codes[i] & 0xFF) * scales[Math.toIntExact(block)];
        }
        return numbers;
    }
}
