package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.DeviceLostException;
import java.util.EnumMap;
import java.util.Map;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUstream;
import jcuda.driver.CUstream_flags;
import jcuda.driver.JCudaDriver;

/**
 * The primary context of a GPU, shared with other libraries in this process, and one stream in it. The driver requires a current context in
 * the calling thread, so each call passes {@link #enter}.
 */
final class GpuContext implements AutoCloseable {
    /** The context that Octet made current in each thread. */
    private static final ThreadLocal<GpuContext> CURRENT = new ThreadLocal<>();

    private final String gpu;
    private final CUdevice device;
    private final CUcontext context = new CUcontext();
    private final StreamHandle stream = new StreamHandle();
    private final Map<Lane, CUstream> others = new EnumMap<>(Lane.class);
    private boolean lost;

    /** Retains the primary context of a device; {@code gpu} is its name in messages. */
    GpuContext(CUdevice device, String gpu) {
        this.device = device;
        this.gpu = gpu;
        check(JCudaDriver.cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain");
        try {
            enter();
            check(JCudaDriver.cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        } catch (RuntimeException e) {
            leave();
            throw e;
        }
    }

    /** Makes the context current in this thread. */
    @SuppressWarnings("ReferenceEquality") // identity, not equality
    void enter() {
        if (CURRENT.get() != this) {
            check(JCudaDriver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
            CURRENT.set(this);
        }
    }

    /** The stream; makes its context current. */
    StreamHandle stream() {
        enter();
        return stream;
    }

    /** The stream of a lane, made when it is first needed; makes its context current. */
    CUstream stream(Lane lane) {
        enter();
        if (lane == Lane.COMPUTE) {
            return stream;
        }
        return others.computeIfAbsent(lane, _ -> {
            CUstream other = new CUstream();
            check(JCudaDriver.cuStreamCreate(other, CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate");
            return other;
        });
    }

    /**
     * Checks the result of a call on this GPU.
     *
     * @throws dev.octet.formats.error.UnavailableException when it is not 0
     */
    void check(int code, String call) {
        try {
            DriverErrors.check(code, call, gpu);
        } catch (DeviceLostException e) {
            lost = true;
            throw e;
        }
    }

    /** Waits for all work on the stream. */
    void synchronize() {
        check(JCudaDriver.cuStreamSynchronize(stream()), "cuStreamSynchronize");
    }

    /** Whether the context is permanently broken, so that nothing can be freed any more. */
    boolean isLost() {
        return lost;
    }

    @Override
    public void close() {
        if (!lost) {
            enter();
            others.values().forEach(s -> check(JCudaDriver.cuStreamDestroy(s), "cuStreamDestroy"));
            check(JCudaDriver.cuStreamDestroy(stream), "cuStreamDestroy");
        }
        leave();
    }

    private void leave() {
        CURRENT.remove();
        // an error is ignored: the context is abandoned in any case
        var _ = JCudaDriver.cuDevicePrimaryCtxRelease(device);
    }
}
