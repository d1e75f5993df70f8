package dev.octet.trainer.device.cuda;

import java.lang.foreign.MemorySegment;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.JCudaDriver;

/**
 * Copies between arbitrary host memory and the GPU through two pinned buffers: while the GPU copies one, the CPU copies the other.
 */
final class Staging implements AutoCloseable {
    private final GpuContext context;
    private final Piece[] pieces;

    /** A pinned buffer, and an event for the end of the GPU's last use of it. */
    private record Piece(MemorySegment bytes, HostAddress address, CUevent used) {}

    /** Uses two buffers of equal size, which the caller frees. */
    Staging(GpuContext context, MemorySegment first, MemorySegment second) {
        this.context = context;
        this.pieces = new Piece[] {piece(first), piece(second)};
    }

    private Piece piece(MemorySegment bytes) {
        CUevent event = new CUevent();
        context.enter();
        context.check(JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        return new Piece(bytes, HostAddress.of(bytes), event);
    }

    /** Copies to the device, after all work so far; {@code from} may be changed afterwards. */
    void write(long to, MemorySegment from) {
        long size = pieces[0].bytes().byteSize();
        int turn = 0;
        for (long at = 0; at < from.byteSize(); at += size) {
            Piece piece = pieces[turn++ % 2];
            long n = Math.min(size, from.byteSize() - at);
            context.enter();
            context.check(JCudaDriver.cuEventSynchronize(piece.used()), "cuEventSynchronize");
            MemorySegment.copy(from, at, piece.bytes(), 0, n);
            context.check(
                    JCudaDriver.cuMemcpyHtoDAsync(DeviceAddress.of(to + at), piece.address(), n, context.stream()),
                    "cuMemcpyHtoDAsync");
            context.check(JCudaDriver.cuEventRecord(piece.used(), context.stream()), "cuEventRecord");
        }
    }

    /** Copies from the device, after waiting for all work so far. */
    void read(long from, MemorySegment to) {
        long size = pieces[0].bytes().byteSize();
        long under = 0;
        int turn = 0;
        for (long at = 0; at < to.byteSize(); at += size) {
            Piece piece = pieces[turn++ % 2];
            long n = Math.min(size, to.byteSize() - at);
            context.check(
                    JCudaDriver.cuMemcpyDtoHAsync(piece.address(), DeviceAddress.of(from + at), n, context.stream()),
                    "cuMemcpyDtoHAsync");
            context.check(JCudaDriver.cuEventRecord(piece.used(), context.stream()), "cuEventRecord");
            if (turn > 1) {
                take(pieces[turn % 2], to, under);
                under += size;
            }
        }
        if (to.byteSize() > 0) {
            take(pieces[(turn - 1) % 2], to, under);
        }
    }

    private void take(Piece piece, MemorySegment to, long at) {
        context.check(JCudaDriver.cuEventSynchronize(piece.used()), "cuEventSynchronize");
        MemorySegment.copy(piece.bytes(), 0, to, at, Math.min(piece.bytes().byteSize(), to.byteSize() - at));
    }

    @Override
    public void close() {
        for (Piece piece : pieces) {
            context.enter();
            context.check(JCudaDriver.cuEventDestroy(piece.used()), "cuEventDestroy");
        }
    }
}
