package dev.octet.trainer.qat;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.FusedWeights;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.op.qat.GradientQuantize;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.op.qat.StepRule;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.QatSettings.LayerOverride;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Puts fake quantisation into a graph. A value that several layers read is quantised once for all that want it in the same way. */
final class QuantizingEdit {
    private static final Attribute WIDE = Attribute.of(Node.IN_F32, 1L);

    private final GraphModel model;
    private final QatSettings settings;
    private final GraphEdit edit;
    private final List<LinearModule> layers;
    private final Map<String, Node> nodes = new HashMap<>();
    private final Map<Want, FakeQuantizer> made = new LinkedHashMap<>();

    /** What a quantiser is made once for. */
    private record Want(LinearTensor tensor, String value, boolean transposed, QuantizerSettings settings) {}

    QuantizingEdit(GraphModel model, QatSettings settings) {
        this.model = model;
        this.settings = settings;
        this.edit = GraphEdit.of(model.graph());
        this.layers = LinearModule.of(model.graph());
        edit.nodes().forEach(n -> nodes.put(n.id(), n));
    }

    QuantizedGraph build(long seed) {
        requireMatches();
        for (LinearModule layer : layers) {
            boolean exempt = (settings.exemptFirst() && layer.equals(layers.getFirst()))
                    || (settings.exemptLast() && layer.equals(layers.getLast()));
            if (!exempt) {
                quantize(layer);
            }
        }
        settings.gradientBits().ifPresent(bits -> quantizeGradients(bits, seed));
        return new QuantizedGraph(model.withGraph(edit.build()), List.copyOf(made.values()));
    }

    /** Rounds the gradient of each quantised layer's result, once. */
    private void quantizeGradients(int bits, long seed) {
        Set<String> ids = new LinkedHashSet<>();
        made.values().forEach(q -> ids.addAll(q.layers()));
        for (LinearModule layer : layers) {
            if (ids.contains(layer.node())) {
                Node linear = node(layer);
                String name = edit.freshName(layer.name() + ".gradient_quantizer");
                edit.replace(
                        linear,
                        linear.withOutputs(List.of(name)),
                        GradientQuantize.node(
                                name,
                                name,
                                linear.output(),
                                bits,
                                CounterRandom.key(seed, layer.name().hashCode())));
            }
        }
    }

    private void requireMatches() {
        for (LayerOverride o : settings.layers()) {
            if (layers.stream().noneMatch(l -> o.matches(l.node(), l.weight()))) {
                throw new InvalidOptionException(
                        "'" + o.match() + "' is in the name of none of the " + layers.size() + " Linears",
                        "precision.layers",
                        layers.isEmpty()
                                ? "leave the layer out"
                                : "write part of a name, such as '"
                                        + layers.getFirst().node() + "'");
            }
        }
    }

    private void quantize(LinearModule layer) {
        LayerOverride special = settings.layers().stream()
                .filter(o -> o.matches(layer.node(), layer.weight()))
                .findFirst()
                .orElse(null);
        if (special != null && !special.quantize()) {
            return;
        }
        Optional<QuantizerSettings> weights = special == null ? settings.weights() : special.weights();
        Optional<QuantizerSettings> inputs = special == null ? settings.inputs() : special.inputs();
        weights.ifPresent(s -> put(layer, LinearTensor.WEIGHT, s));
        inputs.ifPresent(s -> put(layer, LinearTensor.INPUT, s));
    }

    private void put(LinearModule layer, LinearTensor tensor, QuantizerSettings of) {
        Node node = node(layer);
        int at = tensor == LinearTensor.WEIGHT ? 1 : 0;
        boolean transposed = tensor == LinearTensor.WEIGHT && !layer.transB();
        Want want = new Want(tensor, node.input(at), transposed, of);
        FakeQuantizer quantizer = made.get(want);
        if (quantizer == null) {
            quantizer = make(layer, want);
        }
        made.put(want, quantizer.with(layer));
        List<String> inputs = new ArrayList<>(node.inputs());
        inputs.set(at, quantizer.name());
        Node changed = node.withInputs(inputs);
        edit.replace(node, changed);
        nodes.put(layer.node(), changed);
    }

    private Node node(LinearModule layer) {
        Node node = nodes.get(layer.node());
        if (node == null) {
            throw new IllegalStateException("no node " + layer.node());
        }
        return node;
    }

    private FakeQuantizer make(LinearModule layer, Want want) {
        boolean isWeight = want.tensor() == LinearTensor.WEIGHT;
        String name = edit.freshName(layer.name() + (isWeight ? ".weight_quantizer" : ".input_quantizer"));
        Places places = Places.of(want.settings(), want.tensor());
        QuantizeNode form = form(want, places);
        Optional<Shape> shape = Optional.empty();
        Map<Place, String> parameters = new EnumMap<>(Place.class);
        if (isWeight) {
            Tensor weight = master(want.value());
            shape = Optional.of(weight.shape());
            requireWhole(layer, want, form, weight.shape());
            Blocks blocks = form.blocks(weight.shape());
            float[] elements = weight.toFloats();
            for (Place place : places.stored()) {
                Shape of = place == Place.GLOBAL_SCALE ? Shape.SCALAR : form.stepShape(weight.shape());
                float[] start = place == Place.GLOBAL_SCALE
                        ? new float[] {InitialScales.start(want.settings(), LinearTensor.WEIGHT, fused(layer), place)}
                        : InitialScales.start(want.settings(), elements, blocks, place);
                parameters.put(place, constant(name, place, of, start));
            }
        } else {
            requireWhole(layer, want);
            for (Place place : places.stored()) {
                float start = InitialScales.start(want.settings(), LinearTensor.INPUT, Range.NONE, place);
                parameters.put(place, constant(name, place, Shape.SCALAR, new float[] {start}));
            }
        }
        FakeQuantizer quantizer = new FakeQuantizer(
                name,
                List.of(),
                List.of(),
                want.tensor(),
                want.value(),
                want.settings(),
                form,
                parameters,
                shape,
                places.learned());
        Node anchor = node(layer);
        String x = want.value();
        boolean squeezed = isWeight && want.settings().method() == Method.DOREFA;
        if (squeezed && !(form.grid() instanceof CodeGrid.Signs)) {
            x = squeezed(name, x, anchor);
        }
        String step = parameters.getOrDefault(Place.SCALE, parameters.getOrDefault(Place.AMAX, ""));
        String offset = parameters.getOrDefault(Place.OFFSET, parameters.getOrDefault(Place.ZERO_POINT, ""));
        if (want.settings().variant() == QuantizerSettings.Variant.ZERO_POINT) {
            step = detached(name + ".max", ofBlocks("ReduceMax", name + ".max", x, form, shape, anchor), anchor);
            offset = detached(name + ".min", ofBlocks("ReduceMin", name + ".min", x, form, shape, anchor), anchor);
        } else if (want.settings().method() == Method.DYNAMIC) {
            step = amax(name, x, form, shape, want.settings(), anchor);
        }
        List<String> inputs = new ArrayList<>(List.of(
                x,
                step,
                offset,
                parameters.getOrDefault(Place.PRE_AMAX, ""),
                parameters.getOrDefault(Place.GLOBAL_SCALE, "")));
        while (inputs.getLast().isEmpty()) {
            inputs.removeLast();
        }
        boolean stretched = squeezed && !(form.grid() instanceof CodeGrid.Signs);
        String made = stretched ? name + ".codes" : name;
        edit.insertBefore(
                anchor, Node.of(made, "GridQuantize", Node.OCTET_DOMAIN, inputs, List.of(made), form.attributes()));
        if (stretched) {
            String twice = op(name + ".twice", "Mul", List.of(made, number(name + ".two", 2)), anchor);
            edit.insertBefore(
                    anchor, Node.of(name, "Sub", "", List.of(twice, number(name + ".one", 1)), List.of(name), WIDE));
        }
        return quantizer;
    }

    /** DoReFa's tanh(w) / (2 max |tanh(w)|) + 1/2, with gradients through the maximum, too, as the code of tensorpack has it. */
    private String squeezed(String name, String w, Node anchor) {
        String t = op(name + ".tanh", "Tanh", List.of(w), anchor);
        String magnitude = op(name + ".magnitude", "Abs", List.of(t), anchor);
        String max = op(name + ".max", "ReduceMax", List.of(magnitude), anchor, Attribute.of("keepdims", 0L));
        String twice = op(name + ".range", "Mul", List.of(max, number(name + ".half_range", 2)), anchor);
        String ratio = op(name + ".ratio", "Div", List.of(t, twice), anchor);
        return op(name + ".squeezed", "Add", List.of(ratio, number(name + ".half", 0.5f)), anchor);
    }

    /** The largest magnitude of each block. */
    private String amax(
            String name, String x, QuantizeNode form, Optional<Shape> shape, QuantizerSettings s, Node anchor) {
        String magnitude = op(name + ".magnitude", "Abs", List.of(x), anchor);
        String amax = ofBlocks("ReduceMax", name + ".amax", magnitude, form, shape, anchor);
        return s.variant() == QuantizerSettings.Variant.THROUGH_SCALE ? amax : detached(name, amax, anchor);
    }

    private String detached(String name, String value, Node anchor) {
        return add(name + ".detached", "Detach", Node.OCTET_DOMAIN, List.of(value), anchor);
    }

    /** A reduction of each block, as an operator's parameters: in the order of the blocks. */
    private String ofBlocks(
            String reduction, String name, String x, QuantizeNode form, Optional<Shape> shape, Node anchor) {
        return switch (form.granularity()) {
            case Granularity.PerTensor _ -> op(name, reduction, List.of(x), anchor, Attribute.of("keepdims", 0L));
            case Granularity.PerToken _ -> along(-1, reduction, name, x, anchor);
            case Granularity.PerChannel(int axis) -> along(axis == -2 ? -1 : 0, reduction, name, x, anchor);
            case Granularity.PerGroup(int axis, int size) -> groups(reduction, name, x, axis, size, shape, anchor);
            case Granularity.Mx(int axis, int size) -> groups(reduction, name, x, axis, size, shape, anchor);
            case Granularity.PerBlock _ ->
                throw new InvalidOptionException(
                        "scales of squares cannot follow from the values of each step",
                        "precision.weights",
                        "choose granularity: group, channel or tensor, or method: lsq");
        };
    }

    private String along(long axis, String reduction, String name, String x, Node anchor) {
        List<String> inputs = List.of(x, longs(name + ".axes", axis));
        return op(name, reduction, inputs, anchor, Attribute.of("keepdims", 0L));
    }

    private String groups(
            String reduction, String name, String x, int axis, int size, Optional<Shape> shape, Node anchor) {
        long[] cut = axis == -1 || shape.isEmpty()
                ? new long[] {-1, size}
                : new long[] {shape.get().dim(0) / size, size, shape.get().dim(1)};
        String rows = op(name + ".groups", "Reshape", List.of(x, longs(name + ".cut", cut)), anchor);
        return along(1, reduction, name, rows, anchor);
    }

    private String op(String name, String type, List<String> inputs, Node anchor, Attribute... attributes) {
        return add(name, type, "", inputs, anchor, attributes);
    }

    private String add(
            String name, String type, String domain, List<String> inputs, Node anchor, Attribute... attributes) {
        Attribute[] all = Arrays.copyOf(attributes, attributes.length + 1);
        all[attributes.length] = WIDE;
        edit.insertBefore(anchor, Node.of(name, type, domain, inputs, List.of(name), all));
        return name;
    }

    private String number(String name, float value) {
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.SCALAR, value)));
        return name;
    }

    private String longs(String name, long... values) {
        edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values)));
        return name;
    }

    private static QuantizeNode form(Want want, Places places) {
        QuantizerSettings s = want.settings();
        boolean lsq = places.rule() == StepRule.LSQ;
        return new QuantizeNode(
                s.grid(),
                want.transposed() ? transposed(s.granularity()) : s.granularity(),
                false,
                places.rule(),
                places.form(),
                lsq ? s.count() : QuantizeNode.Count.NONE,
                want.tensor() == LinearTensor.INPUT);
    }

    /** Of a matrix that lies as [in, out], for one in [out, in] order. */
    private static Granularity transposed(Granularity granularity) {
        return switch (granularity) {
            case Granularity.PerTensor() -> granularity;
            case Granularity.PerToken() -> new Granularity.PerChannel(-1);
            case Granularity.PerChannel(int axis) -> new Granularity.PerChannel(-3 - axis);
            case Granularity.PerGroup(int axis, int size) -> new Granularity.PerGroup(-3 - axis, size);
            case Granularity.Mx(int axis, int size) -> new Granularity.Mx(-3 - axis, size);
            case Granularity.PerBlock(int rows, int cols) -> new Granularity.PerBlock(cols, rows);
        };
    }

    /** The weights that engines load as one matrix with this one, q, k and v among them: NVFP4's upper scale has to be the same for all. */
    private Range fused(LinearModule layer) {
        String group = FusedWeights.group(layer.name()).orElse(layer.name());
        Range range = Range.NONE;
        for (LinearModule l : layers) {
            if (FusedWeights.group(l.name()).orElse(l.name()).equals(group)) {
                range = range.and(Range.of(master(l.weight()).toFloats()));
            }
        }
        return range;
    }

    /** Groups of an input may not reach from one row into the next. */
    private void requireWhole(LinearModule layer, Want want) {
        int size = switch (want.settings().granularity()) {
            case Granularity.PerGroup(int _, int group) -> group;
            case Granularity.Mx(int _, int group) -> group;
            default -> 1;
        };
        @Nullable Initializer weight = edit.initializer(layer.weight());
        long width = weight == null
                ? 0
                : weight.spec().map(t -> t.shape().dim(layer.transB() ? 1 : 0)).orElse(0L);
        if (width % size != 0) {
            throw new InvalidOptionException(
                    "the input of '" + layer.name() + "' has " + width
                            + " elements, which are no multiple of groups of " + size,
                    "precision.inputs",
                    "choose a group_size that divides " + width + ", or exempt it: layers: [{match: '" + layer.name()
                            + "', inputs: none}]");
        }
    }

    /** Readers of groups and blocks of the field want them whole. */
    private static void requireWhole(LinearModule layer, Want want, QuantizeNode form, Shape shape) {
        Blocks blocks = form.blocks(shape);
        boolean whole = blocks.rows() % Math.min(blocks.blockRows(), blocks.rows()) == 0
                && blocks.cols() % Math.min(blocks.blockCols(), blocks.cols()) == 0;
        boolean grouped = want.settings().granularity() instanceof Granularity.PerGroup
                || want.settings().granularity() instanceof Granularity.Mx;
        if (grouped && !whole) {
            throw new InvalidOptionException(
                    "the weight of '" + layer.name() + "', " + shape + ", cannot be cut into groups "
                            + want.settings().granularity().text(),
                    "precision.weights",
                    "choose a group_size that divides its inputs, or exempt it: layers: [{match: '" + layer.name()
                            + "', quantize: false}]");
        }
    }

    private String constant(String quantizer, Place place, Shape shape, float[] values) {
        String name = edit.freshName(quantizer + "." + place.suffix());
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, shape, values)));
        return name;
    }

    private Tensor master(String weight) {
        @Nullable Initializer found = edit.initializer(weight);
        Tensor tensor = found == null ? null : found.tensor().orElse(null);
        if (tensor == null) {
            throw new InvalidOptionException(
                    "the weight '" + weight + "' is in codes, not floats",
                    "precision: {mode: qat}",
                    "dequantise the model first: octet dequantize");
        }
        return Parameters.master(new Parameter(weight, tensor, Parameter.Use.WEIGHT), Arena.ofAuto());
    }
}
