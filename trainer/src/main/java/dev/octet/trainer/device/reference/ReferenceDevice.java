package dev.octet.trainer.device.reference;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.util.Collection;

/** Computes everything in F64, in one thread, without reusing memory. */
public final class ReferenceDevice implements Device {
    @Override
    public String name() {
        return "reference";
    }

    @Override
    public String products() {
        return "plain loops in F64";
    }

    /** It adds up in F64. */
    @Override
    public boolean addsLikeHopper() {
        return false;
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        ReferenceMemory memory = new ReferenceMemory();
        lasting.forEach(memory::elements);
        return memory;
    }

    @Override
    public Executable load(Program program, Memory memory) {
        if (!(memory instanceof ReferenceMemory own)) {
            throw new IllegalArgumentException("memory of another device");
        }
        return new ReferenceExecutable(program, own);
    }

    @Override
    public void close() {}
}
