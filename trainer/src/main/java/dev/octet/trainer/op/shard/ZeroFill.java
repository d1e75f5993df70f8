package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/** {@code y = 0}: what the contributions to a gradient that lives within a micro-batch are added to. */
public record ZeroFill(OperandType y) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<ZeroFill> ENTRY =
            OpEntry.of(ZeroFill.class, new ZeroFillReference(), new ZeroFillCpu(), new ZeroFillCuda());

    @Override
    public String type() {
        return "ZeroFill";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }
}
