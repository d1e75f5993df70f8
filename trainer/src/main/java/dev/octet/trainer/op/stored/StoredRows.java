package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Rows of a frozen table that stays as it is stored, as F32: embeddings. Only rows that are looked up are decoded. Negative indices count from the end.
 *
 * <p>Inputs: {@link #INDICES}, then the operands of the table.
 *
 * @param node id of the node: indices are data, and messages about them name it
 * @param table [size, length of a row]
 * @param indices I64 or I32
 */
public record StoredRows(String node, StoredMatrix table, OperandType indices) implements ForwardOp {
    public static final int INDICES = 0;
    /** The first operand of the table. */
    public static final int TABLE = 1;

    /** Its row in the table of operators. */
    public static final OpEntry<StoredRows> ENTRY =
            OpEntry.of(StoredRows.class, new StoredRowsReference(), new StoredRowsCpu(), new StoredRowsCuda());

    @Override
    public String type() {
        return "StoredRows";
    }

    @Override
    public List<OperandType> outputs() {
        long[] dims = LongStream.concat(LongStream.of(indices.shape().toArray()), LongStream.of(table.cols()))
                .toArray();
        return List.of(new OperandType(DType.F32, Shape.of(dims)));
    }
}
