package dev.octet.trainer.op.product;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.Arrays;
import java.util.List;

class MatMulTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                matMul("one", f32(1, 1), f32(1, 1)),
                matMul("matrices", f32(5, 7), f32(7, 3)),
                matMul("vector times vector", f32(7), f32(7)),
                matMul("vector times matrix", f32(7), f32(7, 3)),
                matMul("matrix times vector", f32(5, 7), f32(7)),
                matMul("vector times matrices", f32(7), f32(2, 7, 3)),
                matMul("matrices times vector", f32(2, 5, 7), f32(7)),
                matMul("one matrix on the right", f32(2, 3, 5, 7), f32(7, 3)),
                matMul("one matrix on the right, of rank 3", f32(4, 5, 7), f32(1, 7, 3)),
                matMul("one matrix on the left", f32(5, 7), f32(2, 3, 7, 4)),
                matMul("few matrices", f32(3, 5, 7), f32(3, 7, 4)),
                matMul("many matrices", f32(2, 3, 5, 7), f32(2, 3, 7, 4)),
                matMul("broadcast on the right", f32(2, 3, 5, 7), f32(3, 7, 4)),
                matMul("broadcast on the left", f32(3, 5, 7), f32(2, 3, 7, 4)),
                matMul("broadcast both ways", f32(2, 1, 3, 4), f32(3, 4, 5)),
                matMul("broadcast both ways, many", f32(5, 1, 3, 4), f32(6, 4, 5)),
                matMul("longer than a tile", f32(2, 2, 65, 129), f32(2, 2, 129, 67)));
    }

    private static Case matMul(String name, OperandType a, OperandType b) {
        Node node = Node.of("", "MatMul", List.of("a", "b"), List.of("y"));
        return Case.normal(name, MatMul.read(new OpSource(node, List.of(a, b), Arrays.asList(null, null), 21)), a, b);
    }
}
