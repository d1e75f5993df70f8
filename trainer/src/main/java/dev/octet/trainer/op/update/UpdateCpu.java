package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;

/** A CPU twin that has no backward half. */
abstract class UpdateCpu<O extends UpdateOp> implements CpuKernel<O> {
    /** Elements of a piece: work enough for a thread to be worth waking. */
    static final long GRAIN = 8L * CpuContext.TILE;

    @Override
    public final void backward(O op, Frame<CpuTensor> frame, CpuContext cpu) {
        throw new IllegalStateException(op.type() + " has no backward half");
    }

    static float scalar(Frame<CpuTensor> frame, int i) {
        float[] one = new float[1];
        frame.input(i).read(0, one, 0, 1);
        return one[0];
    }

    /** The step does not count: output {@code j} is input {@code i}. They lie in the same place in a program. */
    static void keep(Frame<CpuTensor> frame, int i, int j) {
        MemorySegment.copy(
                frame.input(i).bytes(),
                0,
                frame.output(j).bytes(),
                0,
                frame.input(i).bytes().byteSize());
    }

    /** Cuts {@code 0 .. count} into pieces, and pieces into tiles. */
    static void tiles(long count, CpuContext cpu, Tiles body) {
        cpu.parallel().ranges(count, GRAIN, (from, to) -> {
            Tile tile = body.tile();
            for (long at = from; at < to; at += CpuContext.TILE) {
                tile.run(at, (int) Math.min(CpuContext.TILE, to - at));
            }
        });
    }

    /** Makes what one piece works with. */
    interface Tiles {
        Tile tile();
    }

    /** Works on {@code n} elements from {@code from} on. */
    interface Tile {
        void run(long from, int n);
    }
}
