package dev.octet.trainer.op.conv;

import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class ConvTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                conv("one", f32(1, 1, 1, 1), f32(1, 1, 1, 1), f32(1)),
                conv("no padding", f32(2, 3, 5, 6), f32(4, 3, 2, 3), null),
                conv("bias", f32(2, 3, 5, 6), f32(4, 3, 2, 3), f32(4)),
                conv(
                        "padding, stride",
                        f32(2, 2, 5, 6),
                        f32(3, 2, 3, 3),
                        f32(3),
                        ints("pads", 1, 0, 2, 1),
                        ints("strides", 2, 3)),
                conv("padding wider than the input", f32(1, 2, 2, 2), f32(3, 2, 3, 3), null, ints("pads", 4, 3, 4, 5)),
                conv(
                        "padding wider than the input, stride",
                        f32(1, 2, 2, 3),
                        f32(3, 2, 2, 2),
                        null,
                        ints("pads", 3, 4, 3, 4),
                        ints("strides", 2, 3)),
                conv("dilation", f32(1, 2, 7, 6), f32(3, 2, 2, 2), null, ints("dilations", 3, 2)),
                conv("groups", f32(2, 4, 5, 5), f32(6, 2, 3, 3), f32(6), Attribute.of("group", 2)),
                conv(
                        "depthwise",
                        f32(2, 4, 5, 5),
                        f32(4, 1, 3, 3),
                        null,
                        Attribute.of("group", 4),
                        ints("pads", 1, 1, 1, 1)),
                conv("points", f32(3, 5, 4, 3), f32(2, 5, 1, 1), f32(2)),
                conv("points, grouped", f32(2, 6, 4, 3), f32(4, 3, 1, 1), null, Attribute.of("group", 2)),
                conv("patches", f32(2, 3, 8, 8), f32(5, 3, 4, 4), f32(5), ints("strides", 4, 4)),
                conv("one axis", f32(2, 3, 9), f32(4, 3, 3), f32(4), ints("pads", 1, 2), ints("strides", 2)),
                conv(
                        "same, upper",
                        f32(1, 2, 5, 6),
                        f32(2, 2, 2, 3),
                        null,
                        Attribute.of("auto_pad", "SAME_UPPER"),
                        ints("strides", 2, 2)),
                conv("same, lower", f32(1, 2, 5, 6), f32(2, 2, 2, 4), null, Attribute.of("auto_pad", "SAME_LOWER")),
                conv("valid", f32(1, 2, 5, 6), f32(2, 2, 2, 4), null, Attribute.of("auto_pad", "VALID")),
                narrow(DType.BF16),
                narrow(DType.F16),
                conv(
                        "BF16 patches",
                        f32(2, 3, 8, 12).as(DType.BF16),
                        f32(5, 3, 4, 4).as(DType.BF16),
                        f32(5).as(DType.BF16),
                        ints("strides", 4, 4)),
                conv(
                        "BF16 padding",
                        f32(2, 3, 6, 7).as(DType.BF16),
                        f32(4, 3, 3, 3).as(DType.BF16),
                        null,
                        ints("pads", 1, 1, 1, 1)),
                conv(
                        "F16 points",
                        f32(2, 5, 3, 4).as(DType.F16),
                        f32(4, 5, 1, 1).as(DType.F16),
                        null),
                conv("several blocks", f32(11, 8, 40, 40), f32(9, 8, 5, 5), f32(9), ints("pads", 2, 2, 2, 2)));
    }

    private static Case narrow(DType type) {
        OperandType x = f32(2, 4, 5, 6).as(type);
        return conv(
                type + "",
                x,
                f32(6, 2, 3, 2).as(type),
                f32(6).as(type),
                Attribute.of("group", 2),
                ints("strides", 2, 1));
    }

    private static Attribute ints(String name, long... values) {
        return Attribute.of(name, Arrays.stream(values).boxed().toList());
    }

    private static Case conv(
            String name, OperandType x, OperandType w, @Nullable OperandType bias, Attribute... attributes) {
        Node node = Node.of("", "Conv", List.of("x", "w", "b"), List.of("y"), attributes);
        Conv op = Conv.read(new OpSource(node, Arrays.asList(x, w, bias), Arrays.asList(null, null, null), 11));
        return bias == null ? Case.normal(name, op, x, w) : Case.normal(name, op, x, w, bias);
    }

    @Test
    void three_axes_are_refused() {
        assertThrows(
                UnsupportedModelException.class, () -> conv("volume", f32(1, 1, 2, 2, 2), f32(1, 1, 1, 1, 1), null));
    }
}
