package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.op.GpuFusions;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.util.Collection;
import java.util.List;

/**
 * A GPU that runs programs. Work is queued while a step is issued and starts when the session reads a result; a repeated sequence of work
 * runs as one CUDA graph.
 */
public final class CudaDevice implements Device {
    private final Gpu gpu;
    private final CudaQueue queue;
    private final List<CudaFusion> fusions;

    /** Takes ownership of the GPU. */
    public CudaDevice(Gpu gpu) {
        this(gpu, GpuFusions.ALL);
    }

    /** @param fusions step fusions to use; empty to run each step separately */
    CudaDevice(Gpu gpu, List<CudaFusion> fusions) {
        this.gpu = gpu;
        this.fusions = fusions;
        this.queue = new CudaQueue(gpu);
    }

    @Override
    public String name() {
        return "cuda:" + gpu.info().ordinal();
    }

    @Override
    public String products() {
        return gpu.info().name() + ", " + gpu.info().versions();
    }

    @Override
    public boolean multipliesFp8() {
        return gpu.info().hasFp8();
    }

    /** Properties of the GPU. */
    public GpuInfo info() {
        return gpu.info();
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        CudaMemory memory = new CudaMemory(gpu, queue);
        memory.admit(lasting);
        return memory;
    }

    @Override
    public Executable load(Program program, Memory memory) {
        if (!(memory instanceof CudaMemory own)) {
            throw new IllegalArgumentException("memory of another device");
        }
        return new CudaExecutable(program, own, gpu, queue, fusions);
    }

    @Override
    public void close() {
        queue.close();
        gpu.close();
    }
}
