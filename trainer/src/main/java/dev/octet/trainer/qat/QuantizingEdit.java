package dev.octet.trainer.qat;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.op.qat.StepRule;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.qat.QatSettings.LayerOverride;
import dev.octet.trainer.qat.Quantizer.Place;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Puts fake quantisation into a graph. A value that several layers read is quantised once for all that want it in the same way. */
final class QuantizingEdit {
    private final GraphModel model;
    private final QatSettings settings;
    private final GraphEdit edit;
    private final Map<String, Node> nodes = new HashMap<>();
    private final Map<Want, Quantizer> made = new LinkedHashMap<>();

    /** What a quantiser is made once for. */
    private record Want(LinearTensor tensor, String value, boolean transposed, QuantizerSettings settings) {}

    QuantizingEdit(GraphModel model, QatSettings settings) {
        this.model = model;
        this.settings = settings;
        this.edit = GraphEdit.of(model.graph());
        edit.nodes().forEach(n -> nodes.put(n.id(), n));
    }

    QuantizedGraph build() {
        List<LinearModule> layers = LinearModule.of(model.graph());
        requireMatches(layers);
        for (LinearModule layer : layers) {
            boolean exempt = (settings.exemptFirst() && layer.equals(layers.getFirst()))
                    || (settings.exemptLast() && layer.equals(layers.getLast()));
            if (!exempt) {
                quantize(layer);
            }
        }
        return new QuantizedGraph(model.withGraph(edit.build()), List.copyOf(made.values()));
    }

    private void requireMatches(List<LinearModule> layers) {
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
        Quantizer quantizer = made.get(want);
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

    private Quantizer make(LinearModule layer, Want want) {
        String name = edit.freshName(
                layer.name() + (want.tensor() == LinearTensor.WEIGHT ? ".weight_quantizer" : ".input_quantizer"));
        QuantizeNode form = form(want);
        Optional<Shape> shape = Optional.empty();
        Map<Place, String> parameters = new EnumMap<>(Place.class);
        if (want.tensor() == LinearTensor.WEIGHT) {
            Tensor weight = master(want.value());
            shape = Optional.of(weight.shape());
            requireWhole(layer, want, form, weight.shape());
            Blocks blocks = form.blocks(weight.shape());
            parameters.put(
                    Place.SCALE,
                    constant(
                            name,
                            Place.SCALE,
                            form.stepShape(weight.shape()),
                            InitialScales.start(want.settings(), weight.toFloats(), blocks, Place.SCALE)));
        } else {
            parameters.put(Place.SCALE, constant(name, Place.SCALE, Shape.SCALAR, new float[] {1}));
        }
        Quantizer quantizer = new Quantizer(
                name,
                List.of(),
                List.of(),
                want.tensor(),
                want.value(),
                want.settings(),
                form,
                parameters,
                shape,
                Set.of(Place.SCALE));
        Node node = Node.of(
                name,
                "GridQuantize",
                Node.OCTET_DOMAIN,
                List.of(want.value(), quantizer.parameter(Place.SCALE)),
                List.of(name),
                form.attributes());
        edit.insertBefore(node(layer), node);
        return quantizer;
    }

    private static QuantizeNode form(Want want) {
        QuantizerSettings s = want.settings();
        return new QuantizeNode(
                s.grid(),
                want.transposed() ? transposed(s.granularity()) : s.granularity(),
                false,
                StepRule.LSQ,
                GridQuantize.Form.STEP,
                s.count(),
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
