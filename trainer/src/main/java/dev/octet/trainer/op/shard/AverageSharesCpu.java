package dev.octet.trainer.op.shard;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** A share of one F32 tensor is sent from, and averaged to, where it lies; what is more than that is copied side by side. */
final class AverageSharesCpu implements CpuKernel.Forward<AverageShares> {
    @Override
    public void forward(AverageShares op, Frame<CpuTensor> frame, CpuContext cpu) {
        List<List<CpuTensor>> all = new ArrayList<>();
        for (int r = 0; r < op.world().size(); r++) {
            all.add(new ArrayList<>());
        }
        for (int i = 0; i < op.owners().size(); i++) {
            all.get(op.owners().get(i)).add(frame.input(i));
        }
        List<CpuTensor> averages = new ArrayList<>();
        for (int j = 0; j < all.get(op.rank()).size(); j++) {
            averages.add(frame.output(j));
        }
        try (Arena arena = Arena.ofConfined()) {
            List<MemorySegment> shares = new ArrayList<>();
            for (List<CpuTensor> of : all) {
                MemorySegment share = room(of, arena);
                if (!liesThere(of)) {
                    copy(of, share);
                }
                shares.add(share);
            }
            MemorySegment own = room(averages, arena);
            op.world().reduceScatter(shares, own, DType.F32, RankReduction.AVERAGE);
            if (!liesThere(averages)) {
                write(own, averages);
            }
        }
    }

    private static boolean liesThere(List<CpuTensor> share) {
        return share.size() == 1 && share.getFirst().dtype() == DType.F32;
    }

    private static MemorySegment room(List<CpuTensor> share, Arena arena) {
        if (liesThere(share)) {
            return share.getFirst().bytes();
        }
        long bytes = Float.BYTES * share.stream().mapToLong(CpuTensor::count).sum();
        return arena.allocate(Math.max(1, bytes), 64).asSlice(0, bytes);
    }

    private static void copy(List<CpuTensor> from, MemorySegment share) {
        float[] tile = new float[CpuContext.TILE];
        long at = 0;
        for (CpuTensor t : from) {
            for (long i = 0; i < t.count(); i += tile.length) {
                int n = (int) Math.min(tile.length, t.count() - i);
                t.read(i, tile, 0, n);
                MemorySegment.copy(tile, 0, share, Tensor.F32_LE, at, n);
                at += (long) Float.BYTES * n;
            }
        }
    }

    private static void write(MemorySegment share, List<CpuTensor> to) {
        float[] tile = new float[CpuContext.TILE];
        long at = 0;
        for (CpuTensor t : to) {
            for (long i = 0; i < t.count(); i += tile.length) {
                int n = (int) Math.min(tile.length, t.count() - i);
                MemorySegment.copy(share, Tensor.F32_LE, at, tile, 0, n);
                t.write(i, tile, 0, n);
                at += (long) Float.BYTES * n;
            }
        }
    }
}
