package dev.octet.trainer.device.cuda;

import java.lang.foreign.MemorySegment;
import jcuda.Pointer;

/** Address of host memory. */
final class HostAddress extends Pointer {
    /** A pointer for the driver to set. */
    HostAddress() {}

    private HostAddress(long address) {
        super(address);
    }

    /** The start of a native segment, which must outlive this object. */
    static HostAddress of(MemorySegment segment) {
        if (!segment.isNative()) {
            throw new IllegalArgumentException("a segment on the heap has no address");
        }
        return new HostAddress(segment.address());
    }

    long address() {
        return getNativePointer() + getByteOffset();
    }
}
