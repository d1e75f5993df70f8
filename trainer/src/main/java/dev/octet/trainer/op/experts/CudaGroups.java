package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Writes products of rows that are sorted by expert, those of all experts in one launch. How many rows an expert has is known on the device alone, so
 * these are kernels of Octet's own and not the library's products: numbers of 16 bits are multiplied by tensor cores, codes as what they stand for or as BF16,
 * which holds each of them.
 *
 * @param offsets I64 [experts + 1]: rows offsets[e] .. offsets[e+1] - 1 are those of expert e
 * @param rows of all experts
 */
public record CudaGroups(CudaTensor offsets, int experts, int rows, CudaStream cuda) {
    private static final CudaSource SOURCE = CudaSource.of(CudaGroups.class, "grouped.cu");

    /** Rows and columns of a tile, as in the source. */
    private static final int TILE = 64;

    private static final int THREADS = 128;

    /** Numbers of the types of codes, as in the source. */
    private static final int E4M3 = 8;

    private static final int E5M2 = 9;

    /**
     * What an operand's elements are.
     *
     * @param type of numbers, or of codes
     * @param scales address of the scales of codes, those of experts' rows as {@link #scaleRows} has them; 0 for numbers, and of weights, which have theirs
     * @param blockRows rows that share a scale; at least 1
     * @param blockColumns columns that share a scale; at least 1
     */
    public record Elements(DType type, long scales, long blockRows, long blockColumns) {
        /** Numbers. */
        public static Elements numbers(DType type) {
            return new Elements(type, 0, 1, 1);
        }

        int code() {
            return switch (type) {
                case F8_E4M3FN -> E4M3;
                case F8_E5M2 -> E5M2;
                default -> CudaSource.code(type);
            };
        }
    }

    /**
     * Rows of all experts.
     *
     * @param address of the first
     * @param columns of each
     */
    public record Rows(long address, int columns, Elements elements) {
        /** A matrix of numbers. */
        public static Rows of(CudaTensor x) {
            return new Rows(x.address(), Math.toIntExact(x.shape().dim(-1)), Elements.numbers(x.dtype()));
        }

        /** As the next operands of a kernel: what its source calls {@code type_NAME} to {@code block_columns_NAME}. */
        private CudaLaunch passTo(CudaLaunch launch, String name) {
            return launch.value("type_" + name, elements.code())
                    .pointer(name, address)
                    .pointer("scales_" + name, elements.scales)
                    .value("block_rows_" + name, elements.blockRows)
                    .value("block_columns_" + name, elements.blockColumns);
        }
    }

    /**
     * A weight of each expert.
     *
     * @param words address of the elements and that of the scales, or 0, of each expert
     * @param trans whether it lies as [columns of the result, columns of the rows]
     */
    public record Weights(List<Long> words, Elements elements, boolean trans) {}

    /**
     * A bias of each expert.
     *
     * @param words its address, of each expert
     * @param rounded what it is rounded to before it is added
     */
    public record Biases(List<Long> words, DType type, DType rounded) {}

    /**
     * Rows of scales that experts' blocks of so many rows take, at most: those of an expert begin at row {@code offsets[e] / blockRows + e}, so that there is
     * one for what the last block of an expert lacks.
     */
    public long scaleRows(long blockRows) {
        return rows / blockRows + experts + 1;
    }

    /**
     * c = rows times an expert's weight, plus its bias, or that added to c.
     *
     * @param type what is multiplied: F32, BF16 or F16
     * @param scalesSums whether one scale of each operand holds for each sum, and is applied to it
     */
    public void product(
            DType type,
            boolean scalesSums,
            Rows a,
            Weights w,
            @Nullable Biases biases,
            CudaTensor c,
            boolean accumulate) {
        if (c.count() == 0) {
            return;
        }
        long columns = c.shape().dim(-1);
        long tiles = Math.ceilDiv(rows, (long) TILE) + experts;
        Grid grid = new Grid(tiles, tiles(columns), 1, THREADS, 0);
        CudaLaunch launch = cuda.kernel(SOURCE, "expert_product_" + CudaSource.suffix(type), grid)
                .pointer("offsets", offsets)
                .value("experts", experts);
        a.passTo(launch, "a")
                .value("type_w", w.elements.code())
                .pointer("weights", table(w.words))
                .value("block_rows_w", w.elements.blockRows)
                .value("block_columns_w", w.elements.blockColumns)
                .value("inner", (long) a.columns)
                .value("columns", columns)
                .flag("trans", w.trans)
                .flag("scales_sums", scalesSums)
                .value("type_bias", biases == null ? 0 : CudaSource.code(biases.type))
                .pointer("biases", biases == null ? 0L : table(biases.words))
                .value("type_rounded", biases == null ? 0 : CudaSource.code(biases.rounded))
                .typed("type", "c", c)
                .flag("add", accumulate)
                .launch();
    }

    /**
     * Gradients of experts' weights, [columns of a, columns of b]: zero for an expert without rows.
     *
     * @param input number of the weight of an expert among the inputs of a step
     */
    public void gradients(
            DType type, boolean scalesSums, Rows a, Rows b, Frame<CudaTensor> frame, IntUnaryOperator input) {
        Results results = results(frame, input);
        if (results == null || a.columns == 0 || b.columns == 0) {
            return;
        }
        Grid grid = new Grid(tiles(a.columns), tiles(b.columns), experts, THREADS, 0);
        CudaLaunch launch = cuda.kernel(SOURCE, "expert_gradient_" + CudaSource.suffix(type), grid)
                .pointer("offsets", offsets);
        b.passTo(a.passTo(launch, "a"), "b")
                .value("m", (long) a.columns)
                .value("n", (long) b.columns)
                .flag("scales_sums", scalesSums)
                .value("type", CudaSource.code(results.type))
                .pointer("results", results.table)
                .launch();
    }

    /** Gradients of experts' biases: sums of their rows of dy. */
    public void biasGradients(CudaTensor dy, Frame<CudaTensor> frame, IntUnaryOperator input) {
        Results results = results(frame, input);
        long columns = dy.shape().dim(-1);
        if (results == null || columns == 0) {
            return;
        }
        Grid grid = new Grid(Math.ceilDiv(columns, (long) THREADS), experts, 1, THREADS, 0);
        cuda.kernel(SOURCE, "expert_bias", grid)
                .typed("type_dy", "dy", dy)
                .pointer("offsets", offsets)
                .value("type", CudaSource.code(results.type))
                .pointer("results", results.table)
                .value("columns", columns)
                .launch();
    }

    private long table(List<Long> words) {
        return cuda.table(words.stream().mapToLong(Long::longValue).toArray());
    }

    private static int tiles(long lines) {
        return Math.toIntExact(Math.ceilDiv(lines, (long) TILE));
    }

    /** Gradients of experts, of one type; the table has of each the address, 0 where it is not wanted, and whether it is added to. */
    private record Results(DType type, long table) {}

    private @Nullable Results results(Frame<CudaTensor> frame, IntUnaryOperator input) {
        long[] words = new long[2 * experts];
        DType type = null;
        for (int e = 0; e < experts; e++) {
            int i = input.applyAsInt(e);
            if (frame.wantsGradient(i)) {
                CudaTensor gradient = frame.gradient(i);
                if (type != null && type != gradient.dtype()) {
                    throw new IllegalStateException(
                            "gradients of experts are " + type + " and " + gradient.dtype() + ": one type is expected");
                }
                type = gradient.dtype();
                words[2 * e] = gradient.address();
                words[2 * e + 1] = frame.accumulates(i) ? 1 : 0;
            }
        }
        return type == null ? null : new Results(type, cuda.table(words));
    }
}
