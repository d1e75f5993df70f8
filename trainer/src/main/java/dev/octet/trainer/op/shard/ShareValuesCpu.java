package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** A share of one tensor is read and written where it lies; what is more than that is copied side by side. */
final class ShareValuesCpu implements CpuKernel.Forward<ShareValues> {
    @Override
    public void forward(ShareValues op, Frame<CpuTensor> frame, CpuContext cpu) {
        List<List<MemorySegment>> all = new ArrayList<>();
        for (int r = 0; r < op.world().size(); r++) {
            all.add(new ArrayList<>());
        }
        int inputs = 0;
        int outputs = 0;
        for (int owner : op.owners()) {
            CpuTensor value = owner == op.rank() ? frame.input(inputs++) : frame.output(outputs++);
            all.get(owner).add(value.bytes());
        }
        try (Arena arena = Arena.ofConfined()) {
            List<MemorySegment> shares = new ArrayList<>();
            for (List<MemorySegment> of : all) {
                shares.add(of.size() == 1 ? of.getFirst() : room(of, arena));
            }
            if (all.get(op.rank()).size() != 1) {
                join(all.get(op.rank()), shares.get(op.rank()));
            }
            op.world().allGather(shares);
            for (int r = 0; r < shares.size(); r++) {
                if (r != op.rank() && all.get(r).size() != 1) {
                    part(shares.get(r), all.get(r));
                }
            }
        }
    }

    private static MemorySegment room(List<MemorySegment> share, Arena arena) {
        long bytes = share.stream().mapToLong(MemorySegment::byteSize).sum();
        return arena.allocate(Math.max(1, bytes), 64).asSlice(0, bytes);
    }

    private static void join(List<MemorySegment> from, MemorySegment share) {
        long at = 0;
        for (MemorySegment part : from) {
            share.asSlice(at, part.byteSize()).copyFrom(part);
            at += part.byteSize();
        }
    }

    private static void part(MemorySegment share, List<MemorySegment> to) {
        long at = 0;
        for (MemorySegment part : to) {
            part.copyFrom(share.asSlice(at, part.byteSize()));
            at += part.byteSize();
        }
    }
}
