package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Casts with scales of runs and squares of 128, read once, against the same by amaxes, scales and codes. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class BlockCastsTest {
    private static final int BLOCK = ScaleMode.BLOCK;

    /** A matrix and how it is cast: rows that are aligned or not, blocks that are whole or not. */
    record Case(DType type, int rows, int cols, Float8Format format, TransformerEngineScale rule) {
        OperandType x() {
            return new OperandType(type, Shape.of(rows, cols));
        }

        CodedMatrix form(int blockRows, int blockCols) {
            return new CodedMatrix(format, Blocks.ofMatrix(rows, cols, blockRows, blockCols), rule);
        }

        /** Of many magnitudes, with a block of zeros, and a few numbers that are none. */
        double[] values() {
            SplittableRandom random = new SplittableRandom(rows);
            double[] values = new double[rows * cols];
            for (int i = 0; i < values.length; i++) {
                int row = i / cols;
                int column = i % cols;
                boolean empty = row < BLOCK && column < BLOCK && rows > BLOCK;
                values[i] = empty ? 0 : random.nextGaussian() * Math.scalb(1.0, random.nextInt(40) - 30);
            }
            values[values.length - 1] = Double.NaN;
            values[values.length / 2] = Double.POSITIVE_INFINITY;
            values[values.length / 3] = -0.0;
            return values;
        }
    }

    static Stream<Arguments> cases() {
        TransformerEngineScale powers = new TransformerEngineScale(0, true, true);
        TransformerEngineScale quotients = new TransformerEngineScale(1e-4f, false, true);
        return Stream.of(
                        new Case(DType.BF16, 256, 384, Float8Format.E4M3FN, powers),
                        new Case(DType.BF16, 300, 272, Float8Format.E5M2, quotients),
                        new Case(DType.F32, 144, 136, Float8Format.E4M3FN, quotients),
                        new Case(DType.F32, 70, 37, Float8Format.E4M3FN, powers),
                        new Case(DType.F16, 130, 131, Float8Format.E4M3FN, powers))
                .map(Arguments::of);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void one_reading_gives_the_codes_and_scales_of_both_runs(Case c) {
        runs(c, TestGpus::host);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void one_reading_gives_the_codes_and_scales_of_squares(Case c) {
        squares(c, TestGpus::host);
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("cases")
    void on_the_gpu_one_reading_gives_the_codes_and_scales_of_both_runs(Case c) {
        runs(c, TestGpus::shared);
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("cases")
    void on_the_gpu_one_reading_gives_the_codes_and_scales_of_squares(Case c) {
        squares(c, TestGpus::shared);
    }

    private static OperandType bytes(long count) {
        return new OperandType(DType.U8, Shape.of(count));
    }

    private static OperandType scales(CodedMatrix form) {
        return new OperandType(DType.F32, Shape.of(form.blocks().scaleCount()));
    }

    private static void runs(Case c, Supplier<Gpu> gpus) {
        CodedMatrix rows = c.form(1, BLOCK);
        CodedMatrix columns = c.form(BLOCK, 1);
        assertEquals(true, CudaCodes.isPair(rows, columns));
        long leading = CudaCodes.leading(c.rows());
        int groups = Math.toIntExact(CudaCodes.runSums(c.rows()));
        try (CudaOperands operands = new CudaOperands(gpus.get())) {
            CudaTensor x = operands.tensor(c.x(), c.values());
            CudaTensor[] codes = {operands.empty(bytes(c.x().count())), operands.empty(bytes(c.x().count()))};
            CudaTensor[] rowScales = {operands.empty(scales(rows)), operands.empty(scales(rows))};
            CudaTensor spare = operands.empty(bytes(c.x().count()));
            CudaTensor[] transposed = {
                operands.empty(bytes(leading * c.cols())), operands.empty(bytes(leading * c.cols()))
            };
            CudaTensor[] columnScales = {operands.empty(scales(columns)), operands.empty(scales(columns))};
            OperandType number = new OperandType(DType.F32, Shape.of(1));
            CudaTensor[] recorded = {operands.empty(number), operands.empty(number)};
            CudaTensor sums = operands.empty(new OperandType(DType.F32, Shape.of(groups, c.cols())));
            operands.run(cuda -> {
                CudaCodes one = new CudaCodes(x, rows, cuda);
                one.encode(
                        codes[0].address(),
                        0,
                        one.quantScales(c.rule(), rowScales[0].address(), recorded[0].address()));
                CudaCodes two = new CudaCodes(x, columns, cuda);
                two.encode(
                        spare.address(),
                        transposed[0].address(),
                        two.quantScales(c.rule(), columnScales[0].address(), 0));
                one.castRuns(
                        c.rule(),
                        new CudaCodes.Runs(
                                codes[1].address(),
                                rowScales[1].address(),
                                transposed[1].address(),
                                columnScales[1].address(),
                                sums.address(),
                                recorded[1].address()));
            });
            same(operands, codes);
            same(operands, rowScales);
            same(operands, transposed);
            same(operands, columnScales);
            same(operands, recorded);
            checkSums(c, operands.numbers(x), operands.numbers(sums));
        }
    }

    private static void squares(Case c, Supplier<Gpu> gpus) {
        CodedMatrix form = c.form(BLOCK, BLOCK);
        long bytes = CudaCodes.transposedBytes(c.rows(), c.cols());
        try (CudaOperands operands = new CudaOperands(gpus.get())) {
            CudaTensor x = operands.tensor(c.x(), c.values());
            CudaTensor[] codes = {operands.empty(bytes(c.x().count())), operands.empty(bytes(c.x().count()))};
            CudaTensor[] scales = {operands.empty(scales(form)), operands.empty(scales(form))};
            CudaTensor[] transposed = {operands.empty(bytes(bytes)), operands.empty(bytes(bytes))};
            operands.run(cuda -> {
                CudaCodes matrix = new CudaCodes(x, form, cuda);
                long multipliers = matrix.quantScales(c.rule(), scales[0].address(), 0);
                matrix.encode(codes[0].address(), transposed[0].address(), multipliers);
                matrix.castSquares(c.rule(), codes[1].address(), scales[1].address(), transposed[1].address());
            });
            same(operands, codes);
            same(operands, scales);
            same(operands, transposed);
        }
    }

    private static void same(CudaOperands operands, CudaTensor[] two) {
        assertArrayEquals(operands.bytes(two[0]), operands.bytes(two[1]));
    }

    /** Columns of each 128 rows; in F32, by parts of 8 rows. */
    private static void checkSums(Case c, double[] x, double[] sums) {
        for (int i = 0; i < sums.length; i++) {
            double sum = 0;
            double magnitudes = 0;
            for (int r = i / c.cols() * BLOCK; r < Math.min(c.rows(), (i / c.cols() + 1) * BLOCK); r++) {
                sum += x[r * c.cols() + i % c.cols()];
                magnitudes += Math.abs(x[r * c.cols() + i % c.cols()]);
            }
            if (Double.isFinite(sum)) {
                assertEquals(sum, sums[i], magnitudes * 20 * 0x1p-24, "sum " + i);
            }
        }
    }
}
