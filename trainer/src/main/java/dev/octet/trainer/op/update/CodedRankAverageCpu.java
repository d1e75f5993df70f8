package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.reduction.SimulatedRanks;
import dev.octet.trainer.state.CpuState;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;

/** Two passes: the ranks' amaxes, then codes and their sum tile by tile. */
final class CodedRankAverageCpu implements CpuKernel.Forward<CodedRankAverage> {
    @Override
    public void forward(CodedRankAverage op, Frame<CpuTensor> frame, CpuContext cpu) {
        int n = op.rule().ranks();
        float[] amaxes = new float[n];
        for (int r = 0; r < n; r++) {
            amaxes[r] = amax(op, frame.input(r), cpu);
        }
        float preScale = scalar(frame, n + 1);
        SimulatedRanks ranks = new SimulatedRanks(op.rule(), scalar(frame, n), preScale);
        ranks.agree(amaxes);
        AtomicLong saturated = new AtomicLong();
        float multiplier = ranks.multiplier();
        CpuTensor y = frame.output(0);
        tiles(op.g().count(), cpu, () -> {
            float[][] values = new float[n][CpuContext.TILE];
            byte[] sums = new byte[CpuContext.TILE];
            return (from, count) -> {
                for (int r = 0; r < n; r++) {
                    frame.input(r).read(from, values[r], 0, count);
                }
                saturated.addAndGet(ranks.sum(values, count, sums));
                decode(sums, count, multiplier, values[0]);
                y.write(from, values[0], 0, count);
            };
        });
        float next = op.next(preScale, saturated.get(), CpuState.amax(amaxes, n));
        float[] numbers = {ranks.kept(), next, saturated.get()};
        for (int i = 0; i < numbers.length; i++) {
            frame.output(1 + i).write(0, new float[] {numbers[i]}, 0, 1);
        }
    }

    private static float amax(CodedRankAverage op, CpuTensor gradient, CpuContext cpu) {
        float[] largest = new float[Math.toIntExact(Math.ceilDiv(op.g().count(), (long) CpuContext.TILE))];
        tiles(op.g().count(), cpu, () -> {
            float[] tile = new float[CpuContext.TILE];
            return (from, count) -> {
                gradient.read(from, tile, 0, count);
                largest[(int) (from / CpuContext.TILE)] = CpuState.amax(tile, count);
            };
        });
        return CpuState.amax(largest, largest.length);
    }

    /** The product of code and multiplier, in F32. */
    private static void decode(byte[] codes, int n, float multiplier, float[] to) {
        ElementCast.best()
                .decode(
                        Float8Format.E4M3FN,
                        MemorySegment.ofArray(codes).asSlice(0, n),
                        1,
                        DType.F32,
                        MemorySegment.ofArray(to).asSlice(0, 4L * n));
        for (int i = 0; i < n; i++) {
            to[i] *= multiplier;
        }
    }
}
