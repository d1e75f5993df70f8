package dev.octet.trainer.op.qat;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.CodeGrid;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import org.jspecify.annotations.Nullable;

/** An element a thread. A sum over a block is made in pieces, by a block of threads each, whose number follows from the block's size alone. */
final class GridQuantizeCuda implements CudaKernel<GridQuantize> {
    /** As in the source. */
    private static final int THREADS = 256;

    /** Elements of a piece, about, and pieces at most. */
    private static final long PIECE = 1 << 14;

    private static final long MOST_PIECES = 256;

    @Override
    public void forward(GridQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        elements(op, frame, null, frame.output(0), cuda);
    }

    @Override
    public void backward(GridQuantize op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor up = frame.upstream(0);
        if (frame.wantsGradient(GridQuantize.X)) {
            if (op.rule() == StepRule.PASSED) {
                cuda.copy(up.address(), frame.gradient(GridQuantize.X).address(), up.byteSize());
            } else {
                elements(op, frame, up, frame.gradient(GridQuantize.X), cuda);
            }
        }
        sum(op, frame, GridQuantize.STEP, op.parameterFactor(), cuda);
        sum(op, frame, GridQuantize.PRE, op.parameterFactor(), cuda);
        sum(op, frame, GridQuantize.OFFSET, op.factor(), cuda);
    }

    private static void elements(
            GridQuantize op, Frame<CudaTensor> frame, @Nullable CudaTensor up, CudaTensor to, CudaStream cuda) {
        if (to.count() == 0) {
            return;
        }
        CudaLaunch launch = cuda.kernel(source(op), "grid_elements", Grid.over(to.count(), THREADS, 4))
                .pointer("x", frame.input(GridQuantize.X))
                .pointer("dy", up)
                .pointer("to", to);
        common(launch, op, frame).launch();
    }

    private static void sum(GridQuantize op, Frame<CudaTensor> frame, int input, double factor, CudaStream cuda) {
        if (!frame.wantsGradient(input)) {
            return;
        }
        CudaTensor sums = frame.gradient(input);
        Blocks blocks = op.blocks();
        long each = Math.min(blocks.blockRows(), blocks.rows()) * Math.min(blocks.blockCols(), blocks.cols());
        int pieces = (int) Math.clamp(each / PIECE, 1, MOST_PIECES);
        if (op.x().count() == 0) {
            cuda.zero(sums.address(), sums.byteSize());
            return;
        }
        long parts = cuda.workspace(sums.count() * pieces * Double.BYTES);
        CudaLaunch launch = cuda.kernel(source(op), "grid_sums", Grid.of(sums.count() * pieces, THREADS))
                .pointer("x", frame.input(GridQuantize.X))
                .pointer("dy", frame.upstream(0))
                .pointer("parts", parts)
                .value("which", input)
                .value("pieces", pieces);
        common(launch, op, frame).launch();
        cuda.kernel(source(op), "grid_total", Grid.over(sums.count(), THREADS, 1))
                .pointer("parts", parts)
                .pointer("sums", sums)
                .value("blocks", sums.count())
                .value("pieces", pieces)
                .value("factor", factor)
                .launch();
    }

    /** What the macros CUT, GIVEN and FORM of the source stand for. */
    private static CudaLaunch common(CudaLaunch launch, GridQuantize op, Frame<CudaTensor> frame) {
        Blocks blocks = op.blocks();
        CodeGrid grid = op.grid();
        int kind = switch (grid) {
            case CodeGrid.Integers _ -> 0;
            case CodeGrid.Floats _ -> 1;
            case CodeGrid.Signs _ -> 2;
        };
        return launch.value("rows", blocks.rows())
                .value("cols", blocks.cols())
                .value("block_rows", blocks.blockRows())
                .value("block_cols", blocks.blockCols())
                .pointer("step", frame.input(GridQuantize.STEP))
                .pointer("offset", optional(frame, GridQuantize.OFFSET))
                .pointer("pre", optional(frame, GridQuantize.PRE))
                .pointer("global", optional(frame, GridQuantize.GLOBAL))
                .value("kind", kind)
                .value("low", grid.low())
                .value("high", grid.high())
                .value("mantissa", grid instanceof CodeGrid.Floats f ? f.mantissaBits() : 0)
                .value("least", grid instanceof CodeGrid.Floats f ? f.leastExponent() : 0)
                .value("rule", number(op.rule()))
                .value("amax", number(op.form().parameter()))
                .flag("zero", op.form().hasZeroPoint());
    }

    /** As the macros of the source number rules. */
    private static int number(StepRule rule) {
        return switch (rule) {
            case CLIPPED -> 0;
            case PASSED -> 1;
            case LSQ -> 2;
            case PACT -> 3;
            case RANGE -> 4;
            case SCALED -> 5;
        };
    }

    /** As the field amax of the source's Form. */
    private static int number(GridQuantize.Parameter parameter) {
        return switch (parameter) {
            case STEP -> 0;
            case AMAX -> 1;
            case AMAX_POWER_OF_TWO -> 2;
            case MAX -> 3;
        };
    }

    private static @Nullable CudaTensor optional(Frame<CudaTensor> frame, int input) {
        return frame.hasInput(input) ? frame.input(input) : null;
    }

    private static CudaSource source(GridQuantize op) {
        return CudaSource.of(GridQuantizeCuda.class, "grid.cu")
                .define("TYPE", CudaSource.type(op.x().dtype()));
    }
}
