package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.device.RankSums;
import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;
import java.util.List;

/** Averages of values on several GPUs by NCCL, in the compute lane: behind the work that makes them, before that which uses them. */
final class NcclSums implements RankSums {
    private final Nccl nccl;
    private final CudaMemory memory;
    private final Gpu gpu;
    private final CudaQueue queue;
    private final long communicator;
    private boolean failed;

    private NcclSums(Nccl nccl, CudaMemory memory, Gpu gpu, CudaQueue queue, long communicator) {
        this.nccl = nccl;
        this.memory = memory;
        this.gpu = gpu;
        this.queue = queue;
        this.communicator = communicator;
    }

    /**
     * Joins the GPUs of all ranks; all call it together.
     *
     * @param world which tells the ranks the id of their communicator
     */
    static NcclSums join(Nccl nccl, CudaMemory memory, Gpu gpu, CudaQueue queue, Collectives world) {
        byte[] id = world.isFirst() ? nccl.uniqueId() : new byte[Nccl.ID_BYTES];
        world.broadcast(MemorySegment.ofArray(id), 0);
        long _ = gpu.stream(); // makes the GPU current, whose communicator it is to be
        return new NcclSums(nccl, memory, gpu, queue, nccl.join(world.size(), id, world.rank()));
    }

    @Override
    public void average(List<Value> values) {
        for (Value v : values) {
            if (v.type().dtype() != DType.F32) {
                throw new IllegalArgumentException(v + " is averaged in F32");
            }
        }
        queue.start();
        try {
            long stream = gpu.stream();
            nccl.startGroup();
            for (Value v : values) {
                nccl.average(memory.tensor(v).address(), v.type().count(), communicator, stream);
            }
            nccl.endGroup();
            nccl.requireGood(communicator);
        } catch (UnavailableException e) {
            failed = true;
            throw e;
        }
    }

    @Override
    public void close() {
        if (failed) {
            nccl.abort(communicator);
        } else {
            queue.finish();
            gpu.synchronize();
            nccl.leave(communicator);
        }
    }
}
