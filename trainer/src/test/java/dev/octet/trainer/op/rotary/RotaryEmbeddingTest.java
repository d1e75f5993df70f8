package dev.octet.trainer.op.rotary;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

class RotaryEmbeddingTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (int interleaved : new int[] {0, 1}) {
            Attribute order = Attribute.of("interleaved", interleaved);
            String how = interleaved == 1 ? ", neighbours" : ", halves";
            all.add(rotary("heads apart" + how, f32(2, 3, 4, 6), f32(2, 4, 3), order));
            all.add(rotary("one table for all" + how, f32(2, 3, 4, 6), f32(1, 4, 3), order));
            all.add(rotary("heads together" + how, f32(2, 4, 18), f32(2, 4, 3), order, Attribute.of("num_heads", 3)));
            all.add(rotary(
                    "part of a head" + how,
                    f32(2, 3, 4, 6),
                    f32(2, 4, 2),
                    order,
                    Attribute.of("rotary_embedding_dim", 4)));
            all.add(positions("positions" + how, f32(2, 3, 4, 6), f32(9, 3), order));
            all.add(rotary(
                    "BF16" + how, f32(2, 4, 18).as(DType.BF16), f32(2, 4, 3), order, Attribute.of("num_heads", 3)));
            all.add(rotary(
                    "F16, part of a head" + how,
                    f32(2, 3, 20, 96).as(DType.F16),
                    f32(1, 20, 32),
                    order,
                    Attribute.of("rotary_embedding_dim", 64)));
            all.add(rotary("long" + how, f32(2, 5, 130, 64), f32(1, 130, 32), order));
        }
        return all;
    }

    private static RotaryEmbedding read(OperandType x, OperandType table, @Nullable OperandType ids, Attribute... a) {
        Node node = Node.of("", "RotaryEmbedding", List.of("x", "cos", "sin", "ids"), List.of("y"), a);
        return RotaryEmbedding.read(
                new OpSource(node, Arrays.asList(x, table, table, ids), Arrays.asList(null, null, null, null), 23));
    }

    private static Case rotary(String name, OperandType x, OperandType table, Attribute... attributes) {
        return Case.normal(name, read(x, table, null, attributes), x, table, table);
    }

    private static Case positions(String name, OperandType x, OperandType table, Attribute... attributes) {
        OperandType ids =
                new OperandType(DType.I64, Shape.of(x.shape().dim(0), x.shape().dim(2)));
        Case c = Case.normal(name, read(x, table, ids, attributes), x, table, table, ids);
        List<double @Nullable []> inputs = new ArrayList<>(c.inputs());
        inputs.set(3, new double[] {0, 1, 2, 3, 8, 2, 2, 5});
        return new Case(name, c.op(), c.types(), inputs);
    }
}
