package dev.octet.trainer.device;

import java.lang.foreign.MemorySegment;

/** A value on its way from a device. Fetch several values, then read them, to wait only once. */
@FunctionalInterface
public interface Fetched {
    /** Waits and returns the elements at the time of the request; valid until the device runs again. */
    MemorySegment bytes();
}
