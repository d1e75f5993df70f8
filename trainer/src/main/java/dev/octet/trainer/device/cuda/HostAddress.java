package dev.octet.trainer.device.cuda;

import java.lang.foreign.MemorySegment;
import jcuda.Pointer;

/** Memory of the host by its address. */
final class HostAddress extends Pointer {
    /** To be set by the driver. */
    HostAddress() {}

    private HostAddress(long address) {
        super(address);
    }

    /** The start of a native segment, which must live as long as this is used. */
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
