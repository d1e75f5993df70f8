package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;

/** What CPU twins of updates share, and the twins that handle a few numbers in the calling thread. */
final class UpdateCpu {
    /** Elements of a piece: work enough for a thread to be worth waking. */
    static final long GRAIN = 8L * CpuContext.TILE;

    private UpdateCpu() {}

    static void lossCheck(LossCheck op, Frame<CpuTensor> frame, CpuContext cpu) {
        float seen = Float.isFinite(scalar(frame, 0)) ? scalar(frame, 1) : 1;
        frame.output(0).write(0, new float[] {seen}, 0, 1);
    }

    /** In F64. */
    static void finiteGradients(FiniteGradients op, Frame<CpuTensor> frame, CpuContext cpu) {
        double squares = 0;
        for (int i = 0; i < op.gradients(); i++) {
            squares += frame.input(FiniteGradients.SQUARES + i).bytes().get(Tensor.F64_LE, 0);
        }
        double[] outputs = op.outputs(scalar(frame, 0), scalar(frame, 1), scalar(frame, 2), squares);
        for (int j = 0; j < outputs.length; j++) {
            frame.output(j).write(0, new float[] {(float) outputs[j]}, 0, 1);
        }
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
