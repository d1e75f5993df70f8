package dev.octet.trainer.op.host;

import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * A copy of a value to memory of the host or back, bit for bit, as two steps: one starts it, another waits for it. Steps between the two compute meanwhile. Where copies
 * are not asynchronous, the first does it all.
 *
 * @param value type of the value, here and there
 * @param stage which of the four steps
 */
public record HostCopy(OperandType value, Stage stage) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<HostCopy> ENTRY =
            OpEntry.of(HostCopy.class, new HostCopyReference(), new HostCopyCpu(), new HostCopyCuda());

    /** The steps of a round trip, in order. */
    public enum Stage {
        /** Input x, output its copy on the host: the copy starts. */
        LEAVE,
        /** Inputs x and its copy: the copy is complete, the memory of x may be used again. */
        LEFT,
        /** Input the copy on the host, output y: the copy back starts. */
        COME_BACK,
        /** Inputs the copy on the host and y: y is complete. */
        BACK;

        /** Whether this step starts a copy. */
        boolean starts() {
            return this == LEAVE || this == COME_BACK;
        }
    }

    @Override
    public String type() {
        return "HostCopy";
    }

    @Override
    public List<OperandType> outputs() {
        return stage.starts() ? List.of(value) : List.of();
    }
}
