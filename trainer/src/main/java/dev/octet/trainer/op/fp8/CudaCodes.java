package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.scale.MsampScale;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TorchaoScale;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.product.CudaLengths;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes the quantisation of one matrix. Products need codes K-contiguous on both sides, and half of them sum over the other axis: so where
 * the transpose is wanted it is made in the same pass.
 */
public final class CudaCodes {
    static final CudaSource SOURCE = CudaSource.of(CudaCodes.class, "fp8.cu");

    /** What the transpose of codes is called between the step that makes codes and the one that multiplies them. */
    public static final String TRANSPOSED = "transposed codes";

    /** Rows of a transpose are padded with zeros to a multiple of this: products take no other lengths. */
    private static final long PAD = 16;

    private static final float BF16_MAX = 0x1.FEp127f;

    /** Rows and columns that a block of a cast with its transpose takes, as in fp8.cu. */
    private static final long TILE_ROWS = 64;

    private static final long TILE_COLUMNS = 128;

    private final CudaTensor x;
    private final Float8Format format;
    private final Blocks blocks;
    private final CudaStream cuda;
    private final long pitch;
    private final long sums;

    /** @param x F32, BF16 or F16 */
    CudaCodes(CudaTensor x, CodedMatrix form, CudaStream cuda) {
        this(x, form.format(), form.blocks(), cuda, form.blocks().cols(), 0);
    }

    private CudaCodes(CudaTensor x, Float8Format format, Blocks blocks, CudaStream cuda, long pitch, long sums) {
        this.x = x;
        this.format = format;
        this.blocks = blocks;
        this.cuda = cuda;
        this.pitch = pitch;
        this.sums = sums;
    }

    /** With rows of codes that are padded as those of a transpose are, in casts that make one, too. */
    CudaCodes padded() {
        return new CudaCodes(x, format, blocks, cuda, leading(blocks.cols()), sums);
    }

    /**
     * With sums of the matrix's rows: casts that make a transpose, too, write those of groups of them.
     *
     * @param to F32 [{@link #sumRows}, columns]
     */
    CudaCodes summing(long to) {
        return new CudaCodes(x, format, blocks, cuda, pitch, to);
    }

    /** Rows of sums that are still to be added up. */
    public static long sumRows(long rows) {
        return Math.ceilDiv(rows, TILE_ROWS);
    }

    /** A tensor of any rank as a matrix with one scale. */
    static CudaCodes whole(CudaTensor x, Float8Format format, CudaStream cuda) {
        int cols = Math.toIntExact(x.shape().rank() == 0 ? 1 : x.shape().dim(-1));
        int rows = cols == 0 ? 0 : Math.toIntExact(x.count() / cols);
        return new CudaCodes(x, new CodedMatrix(format, CodedMatrix.whole(rows, cols), null), cuda);
    }

    /** Elements from one row of a transpose to the next. */
    public static long leading(long rows) {
        return Math.ceilDiv(rows, PAD) * PAD;
    }

    /** Bytes of the transpose of a matrix. */
    static long transposedBytes(long rows, long cols) {
        return leading(rows) * cols;
    }

    private String types() {
        return x.suffix() + "_" + CudaSource.suffix(format.dtype());
    }

    /**
     * Codes with one multiplier that is known.
     *
     * @param quantScale address of it
     * @param transposed where the transpose goes; 0 when it is not wanted
     * @param scale where the scale goes; 0 when it is not wanted
     * @param amax what is raised to the largest magnitude; 0 for nothing
     */
    void cast(long codes, long transposed, long quantScale, long scale, long amax) {
        cast("cast", List.of(x), new Cast(codes, transposed, quantScale, scale, amax));
    }

    /**
     * The same of what an operator makes, whose result x is.
     *
     * @param operator begins the kernels' names
     * @param operands the kernels' first arguments
     */
    void cast(String operator, List<Object> operands, Cast to) {
        List<Object> arguments = new ArrayList<>(operands);
        if (to.transposed() == 0 || x.count() == 0) {
            arguments.addAll(List.of(to.codes(), x.count(), to.quantScale(), to.scale(), to.amax()));
            cuda.launch(SOURCE, operator + "_amax_" + types(), strided(x.count(), 16), arguments.toArray());
            return;
        }
        cast(operator, operands, List.of(this), List.of(to), cuda);
    }

    /** The same of several results of one shape, all with their transposes. */
    static void cast(
            String operator, List<Object> operands, List<CudaCodes> matrices, List<Cast> casts, CudaStream cuda) {
        CudaCodes first = matrices.getFirst();
        long rows = first.blocks.rows();
        long cols = first.blocks.cols();
        List<Object> arguments = new ArrayList<>(operands);
        arguments.addAll(List.of(rows, cols));
        for (int i = 0; i < matrices.size(); i++) {
            Cast to = casts.get(i);
            arguments.addAll(List.of(to.codes(), matrices.get(i).pitch, to.transposed(), leading(rows)));
            arguments.addAll(List.of(to.quantScale(), to.scale(), to.amax(), matrices.get(i).sums));
        }
        cuda.launch(SOURCE, operator + "_transpose_" + first.types(), tiles(rows, cols), arguments.toArray());
    }

    /**
     * Where a cast with one multiplier goes.
     *
     * @param transposed where the transpose goes; 0 when it is not wanted
     * @param quantScale address of the multiplier
     * @param scale where the scale goes
     * @param amax what is raised to the largest magnitude; 0 for nothing
     */
    public record Cast(long codes, long transposed, long quantScale, long scale, long amax) {}

    /** Casts matrices of the same types in one launch. */
    static void cast(List<CudaCodes> matrices, List<Cast> casts, CudaStream cuda) {
        List<Long> table = new ArrayList<>();
        List<Long> tiles = new ArrayList<>();
        for (int i = 0; i < matrices.size(); i++) {
            CudaCodes m = matrices.get(i);
            Cast c = casts.get(i);
            long rows = m.blocks.rows();
            long cols = m.blocks.cols();
            table.addAll(List.of(m.x.address(), rows, cols, c.codes(), c.transposed()));
            table.addAll(List.of(leading(rows), c.quantScale(), c.scale(), c.amax()));
            for (long row = 0; row < Math.ceilDiv(rows, TILE_ROWS); row++) {
                for (long column = 0; column < Math.ceilDiv(cols, TILE_COLUMNS); column++) {
                    tiles.addAll(List.of((long) i, row << 32 | column));
                }
            }
        }
        long at = table(table, cuda);
        long list = table(tiles, cuda);
        if (!tiles.isEmpty()) {
            Grid grid = Grid.of(tiles.size() / 2, 256);
            cuda.launch(SOURCE, "casts_transpose_" + matrices.getFirst().types(), grid, at, list);
        }
    }

    private static long table(List<Long> numbers, CudaStream cuda) {
        return cuda.table(numbers.stream().mapToLong(Long::longValue).toArray());
    }

    private static Grid tiles(long rows, long cols) {
        return new Grid(Math.ceilDiv(cols, TILE_COLUMNS), Math.toIntExact(Math.ceilDiv(rows, TILE_ROWS)), 1, 256, 0);
    }

    /** Blocks enough for the machine, no more: each thread takes several packs. */
    private Grid strided(long count, int each) {
        long most = 8L * cuda.multiprocessors();
        return Grid.of(Math.max(1, Math.min(most, Math.ceilDiv(count, 256L * each))), 256);
    }

    /**
     * Raises numbers, one for each block, to the largest magnitudes.
     *
     * @param amax address of F32 numbers, at least 0
     */
    void amax(long amax, boolean seesNaN) {
        int nan = seesNaN ? 1 : 0;
        if (x.count() == 0) {
            return;
        }
        long rows = blocks.rows();
        long cols = blocks.cols();
        if (blocks.scaleCount() == 1) {
            cuda.launch(SOURCE, "whole_amax_" + x.suffix(), strided(x.count(), 8), x, x.count(), amax, nan);
        } else if (blocks.blockCols() == 1) {
            long pieces = blocks.gridRows() * Math.ceilDiv(blocks.blockRows(), 64);
            cuda.launch(
                    SOURCE,
                    "column_amax_" + x.suffix(),
                    Grid.over(pieces * cols, 256, 1),
                    x,
                    rows,
                    cols,
                    blocks.blockRows(),
                    amax,
                    nan);
        } else {
            long items = rows * blocks.gridCols() * Math.ceilDiv(blocks.blockCols(), 256);
            cuda.launch(
                    SOURCE,
                    "block_amax_" + x.suffix(),
                    Grid.over(items * 32, 256, 1),
                    x,
                    rows,
                    cols,
                    blocks.blockRows(),
                    blocks.blockCols(),
                    amax,
                    nan);
        }
    }

    /**
     * Multipliers and scales from the values.
     *
     * @param recorded where the largest amax goes; 0 for nowhere
     * @return address of the multipliers
     */
    long quantScales(QuantScaleRule rule, long scales, long recorded) {
        long count = blocks.scaleCount();
        long amax = cuda.workspace(count * Float.BYTES);
        long quantScales = cuda.workspace(count * Float.BYTES);
        cuda.zero(amax, count * Float.BYTES);
        amax(amax, rule.seesNaN());
        scales(format, rule, x.dtype(), new Scales(count, amax, quantScales, scales, recorded), cuda);
        return quantScales;
    }

    /**
     * Where F32 numbers of so many blocks lie.
     *
     * @param recorded where the largest amax goes; 0 for nowhere
     */
    record Scales(long count, long amax, long quantScales, long scales, long recorded) {}

    /**
     * Multipliers and scales from amaxes.
     *
     * @param input type of what is cast
     */
    static void scales(Float8Format format, QuantScaleRule rule, DType input, Scales of, CudaStream cuda) {
        if (of.recorded() != 0) {
            cuda.zero(of.recorded(), Float.BYTES);
        }
        int kind = switch (rule) {
            case TransformerEngineScale _ -> 0;
            case TransformerEngineMxScale _ -> 1;
            case TorchaoScale _ -> 2;
            case MsampScale msamp -> msamp.quirks() ? 3 : 4;
            case WindowedScale windowed -> windowed.rule().quirks() ? 3 : 4;
        };
        TransformerEngineScale te = rule instanceof TransformerEngineScale t ? t : null;
        cuda.launch(
                SOURCE,
                "block_scales",
                Grid.over(of.count(), 256, 1),
                of.amax(),
                of.count(),
                kind,
                format.maxValue(),
                te == null ? 0f : te.epsilon(),
                te != null && te.perBlock() ? largest(input) : Float.MAX_VALUE,
                rule.isPowerOfTwo() ? 1 : 0,
                of.quantScales(),
                of.scales(),
                of.recorded());
    }

    private static float largest(DType input) {
        return switch (input) {
            case BF16 -> BF16_MAX;
            case F16 -> Half.MAX_VALUE;
            default -> Float.MAX_VALUE;
        };
    }

    /** Codes with a multiplier for each block. */
    void encode(long codes, long transposed, long quantScales) {
        if (blocks.scaleCount() == 1) {
            cast(codes, transposed, quantScales, 0, 0);
            return;
        }
        if (transposed != 0 && x.count() > 0) {
            cuda.kernel(SOURCE, "encode_transpose_" + types(), tiles(blocks.rows(), blocks.cols()))
                    .pointer("x", x)
                    .value("rows", blocks.rows())
                    .value("cols", blocks.cols())
                    .value("block_rows", blocks.blockRows())
                    .value("block_cols", blocks.blockCols())
                    .pointer("quant_scales", quantScales)
                    .pointer("codes", codes)
                    .pointer("transposed", transposed)
                    .value("leading", leading(blocks.rows()))
                    .launch();
            return;
        }
        cuda.launch(
                SOURCE,
                "encode_blocks_" + types(),
                Grid.over(x.count(), 256, 8),
                x,
                blocks.rows(),
                blocks.cols(),
                blocks.blockRows(),
                blocks.blockCols(),
                quantScales,
                codes);
    }

    /** Whether one pass makes both: codes of runs along rows, and codes of runs along columns, of which the transpose is wanted alone. */
    static boolean isPair(CodedMatrix rows, CodedMatrix columns) {
        return rows.rule() instanceof TransformerEngineScale rule
                && rule.equals(columns.rule())
                && rows.format() == columns.format()
                && rows.hasScalePerRun(true)
                && columns.hasScalePerRun(false)
                && rows.blocks().elements() > 0;
    }

    /** Rows of sums that {@link #castRuns} leaves to be added up. */
    static long runSums(long rows) {
        return Math.ceilDiv(rows, (long) ScaleMode.BLOCK);
    }

    /**
     * Where {@link #castRuns} goes.
     *
     * @param transposed the transpose of the codes of runs along columns
     * @param columnScales those of runs along columns
     * @param sums F32 [{@link #runSums}, columns]; 0 for nowhere
     * @param recorded where the largest amax of runs along rows goes; 0 for nowhere
     */
    record Runs(long codes, long scales, long transposed, long columnScales, long sums, long recorded) {}

    /** Codes of runs along rows, and those of runs along columns, from one reading ({@link #isPair}). */
    void castRuns(TransformerEngineScale rule, Runs to) {
        if (to.recorded() != 0) {
            cuda.zero(to.recorded(), Float.BYTES);
        }
        cut("cast_runs_", rule, to.codes(), to.scales(), to.transposed())
                .pointer("column_scales", to.columnScales())
                .pointer("sums", to.sums())
                .pointer("recorded", to.recorded())
                .launch();
    }

    /** Whether {@link #castSquares} makes these codes. */
    boolean isOfSquares() {
        return blocks.blockRows() == ScaleMode.BLOCK && blocks.blockCols() == ScaleMode.BLOCK && x.count() > 0;
    }

    /** Codes of squares and their transpose from one reading. */
    void castSquares(TransformerEngineScale rule, long codes, long scales, long transposed) {
        cut("cast_squares_", rule, codes, scales, transposed).launch();
    }

    private CudaLaunch cut(String kernel, TransformerEngineScale rule, long codes, long scales, long transposed) {
        int side = ScaleMode.BLOCK;
        Grid grid = new Grid(
                Math.ceilDiv(blocks.cols(), side), Math.toIntExact(Math.ceilDiv(blocks.rows(), side)), 1, 256, 0);
        return cuda.kernel(SOURCE, kernel + types(), grid)
                .pointer("x", x)
                .value("rows", blocks.rows())
                .value("cols", blocks.cols())
                .value("format_max", format.maxValue())
                .value("epsilon", rule.epsilon())
                .value("largest", rule.perBlock() ? largest(x.dtype()) : Float.MAX_VALUE)
                .flag("power_of_two", rule.isPowerOfTwo())
                .flag("sees_nan", rule.seesNaN())
                .pointer("codes", codes)
                .pointer("scales", scales)
                .pointer("transposed", transposed)
                .value("leading", leading(blocks.rows()));
    }

    /**
     * Scales of blocks, which lie as their grid, as [rows, pitch]: as they are or turned, zeros behind each row.
     *
     * @param pitch at least the columns of the grid, or its rows where they are turned
     */
    static void arrangeScales(long scales, Blocks blocks, boolean turned, long to, long pitch, CudaStream cuda) {
        long rows = turned ? blocks.gridCols() : blocks.gridRows();
        cuda.kernel(SOURCE, "arrange_scales", Grid.over(rows * pitch, 256, 1))
                .pointer("scales", scales)
                .value("rows", blocks.gridRows())
                .value("cols", blocks.gridCols())
                .flag("turned", turned)
                .pointer("to", to)
                .value("pitch", pitch)
                .launch();
    }

    /** The transpose of codes that are there. */
    public static void transpose(long codes, long rows, long cols, long transposed, CudaStream cuda) {
        if (rows == 0 || cols == 0) {
            return;
        }
        cuda.launch(SOURCE, "transpose_codes", tiles(rows, cols), codes, rows, cols, transposed, leading(rows));
    }

    /** On the host, codes of a shape from their transpose as {@link #transpose} leaves it. */
    public static void transposeBack(MemorySegment transposed, Shape shape, MemorySegment codes) {
        long cols = shape.rank() == 0 ? 1 : shape.dim(-1);
        long rows = cols == 0 ? 0 : shape.elementCount() / cols;
        for (long i = 0; i < rows; i++) {
            for (long j = 0; j < cols; j++) {
                codes.set(
                        ValueLayout.JAVA_BYTE,
                        i * cols + j,
                        transposed.get(ValueLayout.JAVA_BYTE, j * leading(rows) + i));
            }
        }
    }

    /**
     * What codes stand for.
     *
     * @param scales 0 for the codes alone
     */
    static void decode(long codes, CodedMatrix form, long scales, DType type, long to, CudaStream cuda) {
        Blocks b = form.blocks();
        cuda.launch(
                SOURCE,
                "decode_blocks_" + CudaSource.suffix(form.format().dtype()) + "_" + CudaSource.suffix(type),
                Grid.over(b.elements(), 256, 8),
                codes,
                b.rows(),
                b.cols(),
                b.blockRows(),
                b.blockCols(),
                scales,
                to);
    }

    /**
     * What codes stand for, as a matrix with more rows and columns, zeros behind what is there.
     *
     * @param pitch codes from one row to the next
     * @param scales 0 for the codes alone
     * @param x its rows are multiples of 16 bytes, and may be longer than {@code to}
     */
    static void decodeRows(
            long codes, long pitch, CodedMatrix form, long scales, Matrix x, CudaLengths.Sides to, CudaStream cuda) {
        Blocks b = form.blocks();
        Grid grid = new Grid(Math.ceilDiv(to.rows(), 8), Math.ceilDiv(to.columns(), 1024), 1, 256, 0);
        cuda.kernel(
                        SOURCE,
                        "decode_rows_" + CudaSource.suffix(form.format().dtype()) + "_" + CudaSource.suffix(x.type()),
                        grid)
                .pointer("codes", codes)
                .value("pitch", pitch)
                .value("rows", b.rows())
                .value("cols", b.cols())
                .value("block_rows", b.blockRows())
                .value("block_cols", b.blockCols())
                .pointer("scales", scales)
                .pointer("x", x.address())
                .value("to_rows", (long) to.rows())
                .value("to_columns", (long) to.columns())
                .value("leading", x.leading())
                .launch();
    }
}
