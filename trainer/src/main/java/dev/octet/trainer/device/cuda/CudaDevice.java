package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
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
    /** Its compute capability. */
    private static final int HOPPER = 90;

    private final Gpu gpu;
    private final CudaQueue queue;
    private final List<CudaFusion> fusions;
    private final long windowBytes;

    /** Takes ownership of the GPU. */
    public CudaDevice(Gpu gpu) {
        this(gpu, GpuFusions.ALL);
    }

    /** @param fusions step fusions to use; empty to run each step separately, copies of parts of tensors too */
    CudaDevice(Gpu gpu, List<CudaFusion> fusions) {
        this(gpu, fusions, StreamPlan.WINDOW_BYTES);
    }

    /** @param windowBytes bytes of values of the host that a window takes together */
    CudaDevice(Gpu gpu, List<CudaFusion> fusions, long windowBytes) {
        this.windowBytes = windowBytes;
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

    @Override
    public boolean addsLikeHopper() {
        return gpu.info().capability() == HOPPER;
    }

    /** Properties of the GPU. */
    public GpuInfo info() {
        return gpu.info();
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        return allocate(lasting, Offload.NONE);
    }

    /** Values in host memory lie in pinned memory and pass through two buffers on the GPU, see {@link StreamPlan}. */
    @Override
    public Memory allocate(Collection<Value> lasting, Offload offload) {
        if (offload.uses(Place.DISK)) {
            throw new InvalidOptionException(
                    "a GPU streams values from the host's memory, not from files",
                    "offload: disk",
                    "use offload: {states: host}, or train on the CPU");
        }
        CudaMemory memory = new CudaMemory(gpu, queue, offload);
        memory.admit(lasting);
        return memory;
    }

    @Override
    public Executable load(Program program, Memory memory) {
        if (!(memory instanceof CudaMemory own)) {
            throw new IllegalArgumentException("memory of another device");
        }
        return new CudaExecutable(program, own, gpu, queue, fusions, windowBytes);
    }

    @Override
    public void close() {
        queue.close();
        gpu.close();
    }
}
