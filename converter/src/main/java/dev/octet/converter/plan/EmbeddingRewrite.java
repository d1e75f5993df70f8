package dev.octet.converter.plan;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Brings embeddings to {@link EmbeddingForm#INT8}.
 *
 * <pre>
 *   codes = Gather(table, ids)   I8 [.., D]
 *   scale = Gather(scales, ids)  F32 [.., 1]
 *   y     = Mul(Cast(codes, F32), scale), and a Cast to the type of the table where that is narrower
 * </pre>
 *
 * <p>The codes keep the name of the table; its scales, [V, 1], are {@code <stem>.weight_scale}.
 */
final class EmbeddingRewrite {
    private static final OperandSpec SPEC = OperandSpec.fromValues(QuantType.INT8, new Granularity.PerChannel(-2));

    private final GraphEdit edit;
    private final Arena arena;
    private final Map<String, Table> tables = new HashMap<>();

    /** A table in its new form, with what {@link LayerResult} says of it. */
    private record Table(String codes, String scales, DType type, double sqnrDb, double minScale, double maxScale) {}

    EmbeddingRewrite(GraphEdit edit, Arena arena) {
        this.edit = edit;
        this.arena = arena;
    }

    /** Replaces a Gather from a finite table. */
    LayerResult rewrite(Node gather) {
        Table table = tables.computeIfAbsent(gather.input(0), this::quantize);
        String y = gather.output();
        String codes = edit.freshName(y + "_codes");
        String scale = edit.freshName(y + "_scale");
        String wide = edit.freshName(y + "_wide");
        boolean narrow = table.type() != DType.F32;
        String product = narrow ? edit.freshName(y + "_f32") : y;
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of(gather.name(), "Gather", List.of(table.codes(), gather.input(1)), List.of(codes)),
                Node.of(scale, "Gather", List.of(table.scales(), gather.input(1)), List.of(scale)),
                cast(codes, DType.F32, wide),
                Node.of(product + "_mul", "Mul", List.of(wide, scale), List.of(product))));
        if (narrow) {
            nodes.add(cast(product, table.type(), y));
        }
        edit.replace(gather, nodes.toArray(Node[]::new));
        return new LayerResult(
                gather.id(), y, table.codes(), table.sqnrDb(), table.minScale(), table.maxScale(), 0, 0, 0);
    }

    private static Node cast(String from, DType type, String to) {
        return Node.of(to + "_cast", "Cast", List.of(from), List.of(to), Attribute.of("to", type.onnxId()));
    }

    private Table quantize(String name) {
        Tensor source = Objects.requireNonNull(edit.initializer(name)).tensor().orElseThrow();
        long rows = source.shape().dim(0);
        ScaleRuns runs = Blocks.of(source.shape(), SPEC.granularity()).runs();
        String stem = name.endsWith(".weight") ? name.substring(0, name.length() - ".weight".length()) : name;
        Tensor scales = Tensor.allocate(
                arena, new TensorSpec(edit.freshName(stem + ".weight_scale"), DType.F32, Shape.of(rows, 1)));
        Tensor codes = Tensor.allocate(arena, new TensorSpec(name, DType.I8, source.shape()));
        BlockCast cast = BlockCast.best();
        cast.amax(source.dtype(), source.bytes(), runs, scales.bytes());
        float least = Float.POSITIVE_INFINITY;
        float most = 0;
        for (long row = 0; row < rows; row++) {
            float scale = SPEC.storedScale(scales.bytes().get(Tensor.F32_LE, row * Float.BYTES));
            scales.bytes().set(Tensor.F32_LE, row * Float.BYTES, scale);
            least = Math.min(least, scale);
            most = Math.max(most, scale);
        }
        cast.encode(SPEC.type(), source.dtype(), source.bytes(), runs, scales.bytes(), codes.bytes());
        edit.putInitializer(Initializer.of(codes));
        edit.putInitializer(Initializer.of(scales));
        return new Table(
                name, scales.spec().name(), source.dtype(), sqnrDb(source, codes, scales.bytes()), least, most);
    }

    private static double sqnrDb(Tensor source, Tensor codes, MemorySegment scales) {
        long columns = source.shape().dim(1);
        double signal = 0;
        double noise = 0;
        for (long i = 0; i < source.shape().elementCount(); i++) {
            double x = Floats.get(source.dtype(), source.bytes(), i);
            double scale = scales.get(Tensor.F32_LE, i / columns * Float.BYTES);
            double y = codes.bytes().get(ValueLayout.JAVA_BYTE, i) * scale;
            signal += x * x;
            noise += (x - y) * (x - y);
        }
        return noise == 0 ? Double.POSITIVE_INFINITY : 10 * Math.log10(signal / noise);
    }
}
