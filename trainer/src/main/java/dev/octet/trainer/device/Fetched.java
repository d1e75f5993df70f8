package dev.octet.trainer.device;

import java.lang.foreign.MemorySegment;

/** A value on its way from a device: asking for several, then reading them, waits once. */
@FunctionalInterface
public interface Fetched {
    /** The elements, as they were behind the work that had been asked for before; waits for it. There until the device runs something again. */
    MemorySegment bytes();
}
