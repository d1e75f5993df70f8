package dev.octet.trainer.op.product;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

class GemmTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (boolean transA : new boolean[] {false, true}) {
            for (boolean transB : new boolean[] {false, true}) {
                String name = (transA ? "aᵀ" : "a") + (transB ? "·bᵀ" : "·b");
                OperandType a = transA ? f32(7, 5) : f32(5, 7);
                OperandType b = transB ? f32(3, 7) : f32(7, 3);
                all.add(gemm(name, a, b, null, transA, transB, 1, 1));
                all.add(gemm(name + " scaled", a, b, f32(3), transA, transB, 0.5f, 2));
                all.add(gemm(name + " + row", a, b, f32(3), transA, transB, 1, 1));
                all.add(gemm(name + " + [1, n]", a, b, f32(1, 3), transA, transB, 1, 1));
                all.add(gemm(name + " + [m, 1]", a, b, f32(5, 1), transA, transB, 1, 1));
                all.add(gemm(name + " + [m, n]", a, b, f32(5, 3), transA, transB, 1, 0.25f));
                all.add(gemm(name + " + scalar", a, b, f32(), transA, transB, 1, 1));
                all.add(gemm(name + " + [1]", a, b, f32(1), transA, transB, -1.5f, 1));
            }
        }
        all.add(gemm("large", f32(70, 300), f32(300, 65), f32(65), false, false, 1, 1));
        return all;
    }

    private static Case gemm(
            String name,
            OperandType a,
            OperandType b,
            @Nullable OperandType c,
            boolean transA,
            boolean transB,
            float alpha,
            float beta) {
        List<Attribute> attributes = List.of(
                Attribute.of("transA", transA ? 1 : 0),
                Attribute.of("transB", transB ? 1 : 0),
                Attribute.of("alpha", alpha),
                Attribute.of("beta", beta));
        Node node = Node.of(
                "",
                "Gemm",
                c == null ? List.of("a", "b") : List.of("a", "b", "c"),
                List.of("y"),
                attributes.toArray(Attribute[]::new));
        OpSource source =
                new OpSource(node, c == null ? List.of(a, b) : List.of(a, b, c), Arrays.asList(null, null, null), 21);
        Gemm op = Gemm.read(source);
        return c == null ? Case.normal(name, op, a, b) : Case.normal(name, op, a, b, c);
    }
}
