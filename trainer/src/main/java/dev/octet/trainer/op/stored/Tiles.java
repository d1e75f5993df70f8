package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.merge.LowRank;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Rows of a stored matrix as floats.
 *
 * @param w what the operands mean
 * @param elements floats, or codes
 * @param scales null for floats
 * @param zeroPoints null where there are none
 * @param merged the rows of a merged matrix; null for others
 */
record Tiles(
        StoredMatrix w,
        CpuTensor elements,
        @Nullable CpuTensor scales,
        @Nullable CpuTensor zeroPoints,
        @Nullable MergedTiles merged) {
    /** Of the operands from number {@code first} on. */
    static Tiles of(StoredMatrix w, Frame<CpuTensor> frame, int first) {
        if (w instanceof StoredMatrix.Merged m) {
            return new Tiles(w, frame.input(first), null, null, merged(m, frame, first));
        }
        int count = w.operands().size();
        return new Tiles(
                w,
                frame.input(first),
                count > 1 ? frame.input(first + 1) : null,
                count > 2 ? frame.input(first + 2) : null,
                null);
    }

    private static MergedTiles merged(StoredMatrix.Merged w, Frame<CpuTensor> frame, int first) {
        List<MergedTiles.Summand> summands = new ArrayList<>();
        int at = first;
        for (StoredMatrix.Member member : w.members()) {
            Tiles base = of(member.base(), frame, at);
            int factors = at + member.base().operands().size();
            LowRank product = LowRank.of(
                    floats(frame.input(factors)),
                    floats(frame.input(factors + 1)),
                    member.base().shape(),
                    member.orientation(),
                    member.factor());
            summands.add(new MergedTiles.Summand(
                    (from, to, floats) -> base.read(from, to, DType.F32, floats),
                    product,
                    member.base().rows(),
                    member.base().cols()));
            at += member.operands().size();
        }
        return new MergedTiles(w, summands);
    }

    private static float[] floats(CpuTensor tensor) {
        float[] elements = new float[Math.toIntExact(tensor.count())];
        tensor.read(0, elements, 0, elements.length);
        return elements;
    }

    /** Finds what all rows depend on. To be called before {@link #read}, by one thread. */
    void prepare(Parallel parallel) {
        if (merged != null) {
            merged.prepare(parallel);
        }
    }

    /** Rows that are decoded together. */
    long alignment() {
        return w instanceof StoredMatrix.Merged m
                ? m.grid().scheme().granularity().rowAlignment()
                : 1;
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
            case StoredMatrix.Merged _ -> Objects.requireNonNull(merged).read(from, to, type, target);
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
