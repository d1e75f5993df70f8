package dev.octet.trainer.op.stored;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.layout.ScaleTensor.Direction;
import dev.octet.quant.layout.WeightForm;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import org.jspecify.annotations.Nullable;

/** Emits the decoding of a stored matrix: codes and scales of a byte are looked up in tables, so that one kernel reads every format. */
final class CudaTiles {
    private final StoredMatrix w;
    private final CudaTensor elements;
    private final @Nullable CudaTensor scales;
    private final @Nullable CudaTensor zeroPoints;
    private final CudaStream cuda;
    private final long codeTable;
    private final long scaleTable;

    CudaTiles(StoredMatrix w, Frame<CudaTensor> frame, int first, CudaStream cuda) {
        int count = w.operands().size();
        this.w = w;
        this.elements = frame.input(first);
        this.scales = count > 1 ? frame.input(first + 1) : null;
        this.zeroPoints = count > 2 ? frame.input(first + 2) : null;
        this.cuda = cuda;
        this.codeTable = w instanceof StoredMatrix.Codes(WeightForm f) ? table(CodeTables.codes(f)) : 0;
        this.scaleTable = w instanceof StoredMatrix.Codes(WeightForm f) ? table(CodeTables.scales(f.scale())) : 0;
    }

    private long table(float[] values) {
        if (values.length == 0) {
            return 0;
        }
        long[] words = new long[(values.length + 1) / 2];
        for (int i = 0; i < values.length; i++) {
            words[i / 2] |= Integer.toUnsignedLong(Float.floatToRawIntBits(values[i])) << (i % 2 * 32);
        }
        return cuda.table(words);
    }

    /** The elements where they lie, if they are floats of this type; else null. */
    @Nullable
    CudaTensor inPlace(DType type) {
        return w instanceof StoredMatrix.Floats && elements.dtype() == type ? elements : null;
    }

    /** Rows {@code first .. first + rows - 1} as {@code type}. */
    void tile(long first, long rows, DType type, long to) {
        Grid grid = Grid.over(rows * w.cols(), 256, 4);
        launch("stored_tile", type, grid)
                .value("first", first)
                .value("rows", rows)
                .pointer("y", to)
                .launch();
    }

    /** Rows that are looked up. */
    void rows(CudaTensor indices, CudaTensor y) {
        launch("stored_rows", y.dtype(), Grid.over(y.count(), 256, 1))
                .pointer("indices", indices)
                .value("index_type", CudaSource.code(indices.dtype()))
                .value("count", indices.count())
                .value("size", (long) w.rows())
                .pointer("y", y)
                .launch();
    }

    /** The source of kernels that make {@code type}. */
    static CudaSource source(DType type) {
        return CudaSource.of(CudaTiles.class, "stored.cu").define("T_TYPE", CudaSource.type(type));
    }

    private CudaLaunch launch(String kernel, DType type, Grid grid) {
        CudaLaunch launch = cuda.kernel(source(type), kernel, grid)
                .pointer("codes", elements)
                .pointer("code_table", codeTable)
                .pointer("scales", scales)
                .pointer("scale_table", scaleTable)
                .pointer("zero_points", zeroPoints)
                .value("cols", (long) w.cols());
        return switch (w) {
            case StoredMatrix.Floats(var of) ->
                launch.value("row_bytes", 0L)
                        .value("block_rows", 1L)
                        .value("block_cols", 1L)
                        .value("grid_cols", 1L)
                        .value("float_type", CudaSource.code(of.dtype()))
                        .flag("half_bytes", false)
                        .flag("divides", false)
                        .value("second_divides", NO_SECOND)
                        .value("zero_rows", 0)
                        .value("bits", 0)
                        .value("second", 1f);
            case StoredMatrix.Merged _ ->
                throw new UnavailableException(
                        "training that is aware of the merge runs on the processor",
                        "adapter.merge_aware",
                        "use --device cpu");
            case StoredMatrix.Codes(WeightForm form) -> {
                Blocks blocks = form.blocks();
                WeightForm.Second second = form.second();
                boolean bytes = form.scale().bits() == 8;
                yield launch.value("row_bytes", form.rowBytes())
                        .value("block_rows", blocks.blockRows())
                        .value("block_cols", blocks.blockCols())
                        .value("grid_cols", blocks.gridCols())
                        .value("float_type", bytes ? 0 : CudaSource.code(form.scale()))
                        .flag("half_bytes", CodeTables.codes(form).length == 16)
                        .flag("divides", form.direction() == Direction.DIVISOR)
                        .value(
                                "second_divides",
                                second == null ? NO_SECOND : second.direction() == Direction.DIVISOR ? 1 : 0)
                        .value("zero_rows", form.zeroPointRows())
                        .value("bits", form.codes().bits())
                        .value("second", second == null ? 1f : second.value());
            }
        };
    }

    /** As in the source: scales are what is stored. */
    private static final int NO_SECOND = 2;
}
