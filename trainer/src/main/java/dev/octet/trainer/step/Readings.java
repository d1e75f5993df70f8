package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;

/** Copies values from a device for the observers of its steps. */
final class Readings {
    private Readings() {}

    /** Elements of a value that is in memory now. */
    static CpuTensor of(Value value, Executable running, Arena arena) {
        long bytes = value.type().byteSize();
        // one byte at least: an empty segment has no address
        CpuTensor copy = new CpuTensor(
                value.type(), arena.allocate(Math.max(1, bytes), 64).asSlice(0, bytes));
        running.read(value, copy.bytes());
        return copy;
    }

    /** Reads a single F32. */
    static float number(Value value, Executable running, Arena arena) {
        float[] one = new float[1];
        of(value, running, arena).read(0, one, 0, 1);
        return one[0];
    }

    /** Whether elements of a type can be non-finite. */
    static boolean isFloat(DType dtype) {
        return dtype == DType.F32 || dtype == DType.F16 || dtype == DType.BF16;
    }
}
