package dev.octet.converter.transform;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.converter.transform.InputSite.Maker;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What transforms ask of a graph: its Linears, norms, and who makes and reads which value. */
final class ModelStructure {
    private static final String ATTENTION = "Attention";

    private final GraphEdit graph;

    ModelStructure(Graph canonical) {
        this.graph = GraphEdit.of(canonical);
    }

    GraphEdit graph() {
        return graph;
    }

    /** The Linear of a node; empty for any other node, and for a Linear whose weight is no constant. */
    Optional<GraphLinear> linear(@Nullable Node n) {
        if (n == null || !n.isOctet(CanonicalOps.LINEAR)) {
            return Optional.empty();
        }
        Optional<Shape> shape = shape(n.input(1));
        if (shape.isEmpty() || shape.get().rank() != 2) {
            return Optional.empty();
        }
        boolean outIn = n.intAttribute("transB", 0) == 1;
        int rows = Math.toIntExact(shape.get().dim(0));
        int cols = Math.toIntExact(shape.get().dim(1));
        String bias = n.hasInput(2) ? n.input(2) : null;
        return Optional.of(new GraphLinear(n.id(), n.input(1), bias, outIn, outIn ? cols : rows, outIn ? rows : cols));
    }

    private Optional<Shape> shape(String constant) {
        Initializer i = graph.initializer(constant);
        return i == null ? Optional.empty() : i.spec().map(TensorSpec::shape);
    }

    /** All values that Linears read, in the order of the graph. */
    List<InputSite> sites() {
        Map<String, List<GraphLinear>> readers = new LinkedHashMap<>();
        for (Node n : graph.nodes()) {
            linear(n)
                    .ifPresent(l -> readers.computeIfAbsent(n.input(0), _ -> new ArrayList<>())
                            .add(l));
        }
        List<InputSite> sites = new ArrayList<>();
        readers.forEach((value, linears) -> sites.add(new InputSite(value, linears, maker(value, linears))));
        return sites;
    }

    private Maker maker(String value, List<GraphLinear> linears) {
        List<Node> others = graph.consumers(value).stream()
                .filter(n -> linear(n).filter(l -> n.input(0).equals(value)).isEmpty())
                .toList();
        if (!others.isEmpty() || graph.isOutput(value)) {
            return new InputSite.Other(
                    others.isEmpty()
                            ? "the input is an output of the model, too"
                            : "the input goes to " + others.getFirst().id() + " ("
                                    + others.getFirst().opType() + "), too");
        }
        for (GraphLinear l : linears) {
            if (graph.consumers(l.weight()).size() > 1) {
                return new InputSite.Other("the weight " + l.weight() + " is used twice");
            }
        }
        Node producer = graph.producer(value);
        if (producer == null) {
            return new InputSite.Other("the input is an input of the model");
        }
        return norm(producer)
                .or(() -> rows(producer, linears.getFirst().in()))
                .orElseGet(() -> new InputSite.Other("the input comes from " + producer.id() + " (" + producer.opType()
                        + "): no norm or Linear that takes the factors"));
    }

    /** The norm of a node whose weight and bias are constants that nothing else uses. */
    Optional<Maker> norm(Node n) {
        boolean layerNorm = n.isOctet(CanonicalOps.LAYER_NORM);
        if (!layerNorm && !n.isOctet(CanonicalOps.RMS_NORM)) {
            return Optional.empty();
        }
        double around = 0;
        String weight = n.input(1);
        Node add = graph.producer(weight);
        if (add != null && add.is("Add") && graph.hasSingleUse(weight)) {
            Double offset = scalar(add.input(1));
            around = offset == null ? Double.NaN : offset;
            weight = add.input(0);
        }
        Node cast = graph.producer(weight);
        if (cast != null && cast.is("Cast") && graph.hasSingleUse(weight)) {
            weight = cast.input(0);
        }
        String bias = layerNorm && n.hasInput(2) ? n.input(2) : null;
        boolean own = isOwn(weight) && (bias == null || isOwn(bias)) && !Double.isNaN(around);
        return own ? Optional.of(new InputSite.Norm(n.id(), weight, bias, around)) : Optional.empty();
    }

    private boolean isOwn(String constant) {
        return graph.initializer(constant) != null && graph.hasSingleUse(constant);
    }

    private @Nullable Double scalar(String constant) {
        Initializer i = graph.initializer(constant);
        Tensor t = i == null ? null : i.tensor().orElse(null);
        if (t == null || t.shape().elementCount() != 1) {
            return null;
        }
        boolean isFloat = t.dtype() == DType.F32 || t.dtype() == DType.BF16 || t.dtype() == DType.F16;
        return isFloat ? (double) Floats.get(t.dtype(), t.bytes(), 0) : null;
    }

    /** Whether every element is multiplied by one constant number, and by nothing else. */
    boolean isScalar(String constant) {
        return scalar(constant) != null;
    }

    /** The Linear from which the value of a node comes, channel by channel. */
    private Optional<Maker> rows(Node n, int channels) {
        if (n.is(ATTENTION)) {
            return values(n, channels);
        }
        List<String> passed = n.is("Mul")
                ? List.of(n.input(0), n.input(1))
                : n.is("Relu") ? List.of(n.input(0)) : n.isOctet(CanonicalOps.LINEAR) ? List.of(n.output()) : List.of();
        return passed.stream()
                .flatMap(v -> made(v, channels).stream())
                .map(Maker.class::cast)
                .findFirst();
    }

    /** The Linear that makes a value of so many channels for one reader. */
    private Stream<InputSite.Rows> stream(String value, int channels) {
        return made(value, channels).stream();
    }

    private Optional<InputSite.Rows> made(String value, int channels) {
        boolean alone = graph.consumers(value).size() == 1 && !graph.isOutput(value);
        Node n = graph.producer(value);
        if (n != null
                && n.isOctet(CanonicalOps.LINEAR)
                && graph.consumers(value).size() >= 1
                && !graph.isOutput(value)) {
            return linear(n)
                    .filter(l -> l.out() == channels && isOwn(l) && (alone || readByLinears(value)))
                    .map(l -> new InputSite.Rows(l, 0, channels, 0, 0));
        }
        if (!alone || n == null || !n.is("Split") || n.intAttribute("axis", 0) != -1) {
            return Optional.empty();
        }
        int part = n.outputs().indexOf(value);
        int parts = n.outputs().size();
        String whole = n.input(0);
        return graph.hasSingleUse(whole) && !n.hasInput(1)
                ? linear(graph.producer(whole))
                        .filter(l -> l.out() == parts * channels && isOwn(l))
                        .map(l -> new InputSite.Rows(l, part * channels, channels, 0, 0))
                : Optional.empty();
    }

    private boolean readByLinears(String value) {
        return graph.consumers(value).stream().allMatch(c -> linear(c).isPresent());
    }

    private boolean isOwn(GraphLinear l) {
        return graph.hasSingleUse(l.weight()) && (l.bias() == null || isOwn(l.bias()));
    }

    /** Attention sums values over positions: a factor of a channel of the values is one of the output. */
    private Optional<Maker> values(Node attention, int channels) {
        int heads = (int) attention.intAttribute("q_num_heads", 0);
        int keyHeads = (int) attention.intAttribute("kv_num_heads", heads);
        if (heads < 1 || keyHeads < 1 || heads % keyHeads != 0 || channels % heads != 0) {
            return Optional.empty();
        }
        int headSize = channels / heads;
        return stream(attention.input(2), keyHeads * headSize)
                .map(r -> (Maker) new InputSite.Rows(r.linear(), r.first(), r.count(), heads, headSize))
                .findFirst();
    }
}
