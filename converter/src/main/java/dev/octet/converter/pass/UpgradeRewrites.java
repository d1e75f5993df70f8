package dev.octet.converter.pass;

import dev.octet.converter.infer.KnownValue;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.op.Change;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The rewrites that changes of operators ask for. Each returns what stands in the old node's place, in order. */
final class UpgradeRewrites {
    private UpgradeRewrites() {}

    /**
     * The nodes that together compute what {@code n} did, after one change; usually the node itself with something moved.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when the new version cannot express the node
     */
    static List<Node> apply(Change change, Node n, UpgradeScope s) {
        return switch (change) {
            case COMPATIBLE -> List.of(n);
            case AXES_TO_INPUT -> axes(n, s);
            case REQUIRED_AXES_TO_INPUT -> requiredAxes(n, s);
            case AXIS_TO_INPUT -> dft(n, s);
            case BOUNDS_TO_INPUTS -> clip(n, s);
            case K_TO_INPUT -> topK(n, s);
            case PADS_TO_INPUTS -> pad(n, s);
            case RATIO_TO_INPUT -> dropoutRatio(n, s);
            case SIZES_TO_INPUT -> splitSizes(n, s);
            case SLICES_TO_INPUTS -> slice(n, s);
            case ALONG_ONE_AXIS -> softmax(n, s);
            case BOOLEAN_MASK -> dropoutMask(n, s);
            case COORDINATE_DEFAULT -> roiAlign(n);
            case MODE_NAMES -> gridSample(n);
            case OUTPUT_COUNT -> splitCount(n);
            case PER_CHANNEL -> groupNormalization(n, s);
            case RENAMED_RESIZE -> upsample(n);
            case RENAMED_SCATTER_ELEMENTS -> scatter(n);
            case ROI_INPUT -> resize(n, s);
            case TF_HALF_PIXEL_REMOVED -> resizeModes(n);
            case TRAINING_MODE -> batchNormalization(n, s);
        };
    }

    // ---- attributes that became inputs
    // --------------------------------------------------------------------------------

    /** axes: an absent or empty list means all axes in both versions, so the input is left out. */
    private static List<Node> axes(Node n, UpgradeScope s) {
        boolean all = n.intsAttribute("axes").map(List::isEmpty).orElse(false);
        String axes = all ? null : s.intsInput(n, "axes");
        Node rest = n.without("axes");
        return List.of(axes == null ? rest : withInput(rest, 1, axes));
    }

    private static List<Node> requiredAxes(Node n, UpgradeScope s) {
        String axes = s.intsInput(n, "axes");
        if (axes == null) {
            throw UpgradeScope.malformed(n, "attribute 'axes' is missing");
        }
        return List.of(withInput(n.without("axes"), 1, axes));
    }

    /** With input {@code i} set; inputs between are absent. */
    private static Node withInput(Node n, int i, String value) {
        List<String> inputs = new ArrayList<>(n.inputs());
        while (inputs.size() <= i) {
            inputs.add("");
        }
        inputs.set(i, value);
        return n.withInputs(inputs);
    }

    private static List<Node> slice(Node n, UpgradeScope s) {
        String starts = s.intsInput(n, "starts");
        String ends = s.intsInput(n, "ends");
        if (starts == null || ends == null) {
            throw UpgradeScope.malformed(n, "attributes 'starts' and 'ends' are missing");
        }
        String axes = s.intsInput(n, "axes");
        Node moved = withInput(withInput(n.without("starts").without("ends").without("axes"), 1, starts), 2, ends);
        return List.of(axes == null ? moved : withInput(moved, 3, axes));
    }

    private static List<Node> topK(Node n, UpgradeScope s) {
        if (!(n.attribute("k").orElse(null) instanceof Attribute.OfInt k)) {
            throw UpgradeScope.malformed(n, "attribute 'k' is missing");
        }
        return List.of(withInput(n.without("k"), 1, s.longs(n, "k", k.value())));
    }

    private static List<Node> splitSizes(Node n, UpgradeScope s) {
        String sizes = s.intsInput(n, "split");
        return List.of(sizes == null ? n : withInput(n.without("split"), 1, sizes));
    }

    private static List<Node> splitCount(Node n) {
        return List.of(
                n.hasInput(1)
                        ? n
                        : n.with(Attribute.of("num_outputs", n.outputs().size())));
    }

    /** The attributes' defaults were the widest float; an absent input bounds nothing, which is the same for all but infinities. */
    private static List<Node> clip(Node n, UpgradeScope s) {
        List<Node> nodes = new ArrayList<>();
        Node moved = n.without("min").without("max");
        for (int i = 1; i <= 2; i++) {
            String role = i == 1 ? "min" : "max";
            float widest = i == 1 ? -Float.MAX_VALUE : Float.MAX_VALUE;
            if (n.attributes().containsKey(role)) {
                moved = withInput(moved, i, s.scalarLike(n, role, floatOf(n, role, widest), n.input(0), nodes));
            }
        }
        nodes.add(moved);
        return nodes;
    }

    private static float floatOf(Node n, String attribute, float fallback) {
        return switch (n.attribute(attribute).orElse(null)) {
            case null -> fallback;
            case Attribute.OfFloat f -> f.value();
            default -> throw UpgradeScope.malformed(n, "attribute '" + attribute + "' is not a float");
        };
    }

    private static List<Node> pad(Node n, UpgradeScope s) {
        String pads = s.intsInput(n, "pads");
        if (pads == null) {
            throw UpgradeScope.malformed(n, "attribute 'pads' is missing");
        }
        List<Node> nodes = new ArrayList<>();
        Node moved = withInput(n.without("pads").without("value"), 1, pads);
        float value = floatOf(n, "value", 0);
        if (value != 0) {
            moved = withInput(moved, 2, s.scalarLike(n, "value", value, n.input(0), nodes));
        }
        nodes.add(moved);
        return nodes;
    }

    private static List<Node> dft(Node n, UpgradeScope s) {
        return List.of(withInput(n.without("axis"), 2, s.scalar(n, "axis", n.intAttribute("axis", 1))));
    }

    // ---- normalisations
    // -----------------------------------------------------------------------------------------------

    /**
     * Before 13 the input was seen as a matrix [d0*..*d(axis-1), d(axis)*..] and each row normalised; axis was 1 by default.
     * That is the new behaviour where {@code axis} is the last one; otherwise the matrix has to be made.
     */
    private static List<Node> softmax(Node n, UpgradeScope s) {
        long axis = n.intAttribute("axis", 1);
        int rank = s.rank(n.input(0));
        Node last = n.with(Attribute.of("axis", -1));
        if (axis == -1 || axis == rank - 1) {
            return List.of(last);
        }
        String shape = s.fresh(n.output() + "_shape");
        String matrix = s.fresh(n.output() + "_matrix");
        String rows = s.fresh(n.output() + "_rows");
        return List.of(
                Node.of("", "Shape", List.of(n.input(0)), List.of(shape)),
                Node.of("", "Flatten", List.of(n.input(0)), List.of(matrix), Attribute.of("axis", axis)),
                last.withInputs(List.of(matrix)).withOutputs(List.of(rows)),
                // allowzero: a 0 in the shape is a size of 0 here, not "copy"
                Node.of("", "Reshape", List.of(rows, shape), List.of(n.output()), Attribute.of("allowzero", 1)));
    }

    private static List<Node> batchNormalization(Node n, UpgradeScope s) {
        for (int i = 1; i < n.outputs().size(); i++) {
            if (s.isUsed(n, i)) {
                throw UpgradeScope.unsupported(n, 14, "output " + i + ", a training statistic, is read");
            }
        }
        if (n.intAttribute("spatial", 1) != 1) {
            throw UpgradeScope.unsupported(n, 14, "spatial=0 (statistics per pixel) was removed in opset 9");
        }
        return List.of(n.without("spatial").withOutputs(List.of(n.output())));
    }

    /** Scale and bias [groups] become [channels]: each repeated for the channels of its group. */
    private static List<Node> groupNormalization(Node n, UpgradeScope s) {
        long groups = n.intAttribute("num_groups", 0);
        if (groups < 1) {
            throw UpgradeScope.malformed(n, "attribute 'num_groups' is missing");
        }
        String count = s.longs(n, "groups", groups);
        String one = s.longs(n, "axis", 1);
        String all = s.longs(n, "channels", -1);
        String channels = s.fresh(n.output() + "_channels_of_x");
        String each = s.fresh(n.output() + "_channels_of_group");
        String table = s.fresh(n.output() + "_group_table");
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of(
                        "",
                        "Shape",
                        List.of(n.input(0)),
                        List.of(channels),
                        Attribute.of("start", 1),
                        Attribute.of("end", 2)),
                Node.of("", "Div", List.of(channels, count), List.of(each)),
                Node.of("", "Concat", List.of(count, each), List.of(table), Attribute.of("axis", 0))));
        Node renewed = n;
        for (int i = 1; i <= 2; i++) {
            String column = s.fresh(n.input(i) + "_column");
            String expanded = s.fresh(n.input(i) + "_expanded");
            String perChannel = s.fresh(n.input(i) + "_per_channel");
            nodes.add(Node.of("", "Unsqueeze", List.of(n.input(i), one), List.of(column)));
            nodes.add(Node.of("", "Expand", List.of(column, table), List.of(expanded)));
            nodes.add(Node.of("", "Reshape", List.of(expanded, all), List.of(perChannel)));
            renewed = withInput(renewed, i, perChannel);
        }
        nodes.add(renewed);
        return nodes;
    }

    private static List<Node> dropoutMask(Node n, UpgradeScope s) {
        if (s.isUsed(n, 1)) {
            throw UpgradeScope.unsupported(n, 10, "its mask, which inference does not define, is read");
        }
        return List.of(n.withOutputs(List.of(n.output())));
    }

    /** Without training_mode the node still passes its input through; the ratio is kept for those who train on. */
    private static List<Node> dropoutRatio(Node n, UpgradeScope s) {
        if (!n.attributes().containsKey("ratio")) {
            return List.of(n);
        }
        List<Node> nodes = new ArrayList<>();
        // The ratio may have any float type, not only that of the data.
        nodes.add(withInput(n.without("ratio"), 1, s.scalar(n, "ratio", floatOf(n, "ratio", 0.5f))));
        return nodes;
    }

    // ---- pixels
    // -------------------------------------------------------------------------------------------------------

    private static List<Node> upsample(Node n) {
        if (!n.hasInput(1)) {
            throw UpgradeScope.malformed(n, "input 'scales' is missing");
        }
        return List.of(renamed(n, "Resize"));
    }

    private static Node renamed(Node n, String op) {
        return new Node(
                n.name(),
                op,
                n.domain(),
                n.overload(),
                n.inputs(),
                n.outputs(),
                n.attributes(),
                n.doc(),
                n.metadata(),
                n.unknown());
    }

    /**
     * Resize-10 maps pixel x to x / scale. Its nearest pixel is the one below when enlarging; when shrinking runtimes take the
     * one above (ONNX Runtime's "simple" mode), so one node that does both on different axes has no new form.
     */
    private static List<Node> resize(Node n, UpgradeScope s) {
        Node moved = n.withInputs(List.of(n.input(0), "", n.input(1)))
                .with(Attribute.of("coordinate_transformation_mode", "asymmetric"));
        if (n.textAttribute("mode", "nearest").equals("nearest")) {
            moved = moved.with(Attribute.of("nearest_mode", shrinks(n, s) ? "ceil" : "floor"));
        }
        return List.of(moved);
    }

    private static boolean shrinks(Node n, UpgradeScope s) {
        float[] scales = floats(s, n.input(1));
        if (scales == null) {
            return false;
        }
        boolean shrinks = false;
        boolean grows = false;
        for (float scale : scales) {
            shrinks |= scale < 1;
            grows |= scale > 1;
        }
        if (shrinks && grows) {
            throw UpgradeScope.unsupported(n, 11, "it enlarges one axis and shrinks another to the nearest pixel");
        }
        return shrinks;
    }

    private static float @Nullable [] floats(UpgradeScope s, String value) {
        Initializer c = s.analysis().constant(value);
        return c == null
                ? null
                : c.tensor()
                        .filter(t -> t.dtype() == dev.octet.formats.tensor.DType.F32
                                && t.shape().elementCount() <= KnownValue.MAX_ELEMENTS)
                        .map(t -> t.toFloats())
                        .orElse(null);
    }

    private static List<Node> resizeModes(Node n) {
        if (n.textAttribute("coordinate_transformation_mode", "half_pixel").equals("tf_half_pixel_for_nn")) {
            throw UpgradeScope.unsupported(n, 13, "coordinate_transformation_mode tf_half_pixel_for_nn was removed");
        }
        return List.of(n);
    }

    private static List<Node> roiAlign(Node n) {
        return List.of(n.with(Attribute.of("coordinate_transformation_mode", "output_half_pixel")));
    }

    private static List<Node> gridSample(Node n) {
        String mode = n.textAttribute("mode", "bilinear");
        return List.of(n.with(
                Attribute.of("mode", mode.equals("bilinear") ? "linear" : mode.equals("bicubic") ? "cubic" : mode)));
    }

    private static List<Node> scatter(Node n) {
        return List.of(renamed(n, "ScatterElements"));
    }
}
