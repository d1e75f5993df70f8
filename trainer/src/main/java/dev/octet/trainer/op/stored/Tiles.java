package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.WeightForm;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Rows of a stored matrix as floats.
 *
 * @param w what the operands mean
 * @param elements floats, or codes
 * @param scales null for floats
 * @param zeroPoints null where there are none
 */
record Tiles(
        StoredMatrix w,
        CpuTensor elements,
        @Nullable CpuTensor scales,
        @Nullable CpuTensor zeroPoints) {
    /** Of the operands from number {@code first} on. */
    static Tiles of(StoredMatrix w, Frame<CpuTensor> frame, int first) {
        int count = w.operands().size();
        return new Tiles(
                w,
                frame.input(first),
                count > 1 ? frame.input(first + 1) : null,
                count > 2 ? frame.input(first + 2) : null);
    }

    /** The elements where they lie, if they are floats of this type; else null. */
    @Nullable
    MemorySegment inPlace(DType type) {
        return w instanceof StoredMatrix.Floats && elements.dtype() == type ? elements.bytes() : null;
    }

    /**
     * Rounds rows to {@code type}.
     *
     * @param target takes {@code (to - from) * columns} elements
     */
    void read(long from, long to, DType type, MemorySegment target) {
        long cols = w.cols();
        switch (w) {
            case StoredMatrix.Codes(WeightForm form) ->
                form.decode(
                        elements.bytes(),
                        bytes(scales),
                        zeroPoints == null ? null : zeroPoints.bytes(),
                        from,
                        to,
                        type,
                        target);
            case StoredMatrix.Floats _ -> {
                CpuTensor tile = new CpuTensor(new OperandType(type, Shape.of(to - from, cols)), target);
                float[] some = new float[(int) Math.min(CpuContext.TILE, tile.count())];
                for (long i = 0; i < tile.count(); i += some.length) {
                    int n = (int) Math.min(some.length, tile.count() - i);
                    elements.read(from * cols + i, some, 0, n);
                    tile.write(i, some, 0, n);
                }
            }
        }
    }

    private static MemorySegment bytes(@Nullable CpuTensor operand) {
        if (operand == null) {
            throw new IllegalStateException("codes without scales");
        }
        return operand.bytes();
    }
}
