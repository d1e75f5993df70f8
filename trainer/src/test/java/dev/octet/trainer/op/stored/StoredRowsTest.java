package dev.octet.trainer.op.stored;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class StoredRowsTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        StoredForms.of(22, 64).forEach((name, table) -> all.add(of(name, table, DType.I64, 3, 0, 21, -1, 3)));
        StoredForms.of(13, 7).forEach((name, table) -> all.add(of("odd " + name, table, DType.I32, 12, -13)));
        all.add(of("no rows", requireNonNull(StoredForms.of(4, 6).get("MXFP8")), DType.I64));
        return all;
    }

    @Override
    protected double tolerance(Case c) {
        return 0; // each element is what the bytes stand for
    }

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    private static Case of(String name, StoredMatrix table, DType type, double... ids) {
        OperandType indices = new OperandType(type, Shape.of(ids.length));
        List<@Nullable OperandType> types = new ArrayList<>(List.of(indices));
        types.addAll(table.operands());
        List<double @Nullable []> inputs = new ArrayList<>();
        inputs.add(ids);
        inputs.addAll(StoredForms.random(table, name.hashCode()));
        return new Case(name, new StoredRows("emb", table, indices), types, inputs);
    }

    @Test
    void an_index_outside_of_the_table_is_refused_with_the_name_of_the_node() {
        Case c = of("outside", requireNonNull(StoredForms.of(4, 6).get("NVFP4")), DType.I64, 0, 4);
        GivenFrame<double[]> frame = GivenFrame.forward(c.inputs(), List.of(new double[12]));
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> new StoredRowsReference().forward((StoredRows) c.op(), frame));
        assertTrue(e.where().contains("'emb'"), e.where());
    }
}
