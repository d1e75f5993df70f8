package dev.octet.trainer.op.binary;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ComparisonTest extends TwinTest {
    private static Pair pair(OperandType a, OperandType b) {
        return new Pair(
                a,
                b,
                new OperandType(
                        DType.BOOL,
                        Broadcast.shape(List.of(a.shape(), b.shape())).orElseThrow()));
    }

    @Override
    protected List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (DType type : List.of(DType.F32, DType.I64, DType.BOOL)) {
            for (BinaryFunction function : BinaryFunction.values()) {
                if (!function.gradient(0).exists()) {
                    Binary op = function.of(pair(f32(71, 41).as(type), f32(41).as(type)));
                    cases.add(Case.normal(
                            function + " " + type, op, op.pair().a(), op.pair().b()));
                }
            }
        }
        return cases;
    }

    @Test
    void integers_beyond_the_precision_of_floats_are_told_apart() {
        Binary equal = BinaryFunction.Equal.of(pair(f32(1).as(DType.I64), f32(1).as(DType.I64)));
        assertEquals(0, equal.value(1L << 40, (1L << 40) + 1));
        assertEquals(false, equal.inTiles());
    }
}
