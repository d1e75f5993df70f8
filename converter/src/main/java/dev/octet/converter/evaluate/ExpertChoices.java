package dev.octet.converter.evaluate;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.LongStream;

/**
 * The experts that the routers of one computation choose, given to another computation of the same model. Where two scores are close, rounding decides which expert a
 * token gets, and a token with another expert is another number altogether; so mixtures are compared with the same experts on both sides, and how many choices of
 * the second would have been others is counted apart.
 *
 * <p>A router is a {@code TopK} (onnx.ai, operators) whose indices something reads: a choice among experts, or among groups of them.
 */
public final class ExpertChoices {
    private final List<Router> routers;

    /**
     * @param indices what {@code TopK} calls the chosen, I64 [..., choices]
     * @param count how many there are to choose from
     */
    private record Router(int number, String indices, long count) {
        /** The chosen, F32: an output of the first computation, an input of the second. */
        String given() {
            return "octet.router." + number + ".given";
        }

        /** 1 for each of {@link #count} that the computation itself chooses, F32 [..., count]. */
        String own() {
            return "octet.router." + number + ".own";
        }
    }

    private ExpertChoices(List<Router> routers) {
        this.routers = routers;
    }

    /** The routers of a model; empty where it has none. */
    public static Optional<ExpertChoices> of(GraphModel model) {
        GraphEdit edit = GraphEdit.of(model.graph());
        if (edit.nodes().stream().noneMatch(n -> isRouter(edit, n))) {
            return Optional.empty();
        }
        Analysis analysis = Analysis.of(model);
        List<Router> found = new ArrayList<>();
        for (Node n : edit.nodes()) {
            if (isRouter(edit, n)) {
                List<Dim> dims = analysis.dims(n.input(0));
                Long count =
                        dims == null || dims.isEmpty() ? null : dims.getLast().size();
                if (count == null || n.intAttribute("axis", -1) != -1) {
                    return Optional.empty();
                }
                found.add(new Router(found.size(), n.output(1), count));
            }
        }
        return Optional.of(new ExpertChoices(List.copyOf(found)));
    }

    private static boolean isRouter(GraphEdit edit, Node n) {
        return n.is("TopK")
                && n.outputs().size() > 1
                && !edit.consumers(n.output(1)).isEmpty();
    }

    /** What {@link #shown} adds to the outputs. */
    public List<String> outputs() {
        return routers.stream()
                .flatMap(r -> List.of(r.given(), r.own()).stream())
                .toList();
    }

    /**
     * The first computation: with its choices as outputs.
     *
     * @param model has the routers
     */
    public GraphModel shown(GraphModel model) {
        GraphEdit edit = GraphEdit.of(model.graph());
        List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
        for (Router r : routers) {
            edit.append(floats(r.indices(), r.given()));
            own(edit, r, r.indices());
            outputs.add(info(r.given()));
            outputs.add(info(r.own()));
        }
        edit.setOutputs(outputs);
        return model.withGraph(edit.build());
    }

    /**
     * The second computation: with the choices of the first as inputs, and its own as outputs.
     *
     * @param model in standard operators, of opset 13 at least
     * @return empty where the model lacks one of the routers under its name
     */
    public Optional<GraphModel> given(GraphModel model) {
        GraphEdit edit = GraphEdit.of(model.graph());
        List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
        List<ValueInfo> outputs = new ArrayList<>(edit.outputs());
        for (Router r : routers) {
            Node router = edit.producer(r.indices());
            if (router == null || !router.is("TopK")) {
                return Optional.empty();
            }
            String indices = edit.freshName(r.own() + ".indices");
            List<Node> nodes = new ArrayList<>();
            nodes.add(router.withName(indices).withOutputs(List.of(edit.freshName(indices + ".scores"), indices)));
            nodes.add(Node.of(
                    r.given() + ".indices",
                    "Cast",
                    List.of(r.given()),
                    List.of(r.indices()),
                    Attribute.of("to", DType.I64.onnxId())));
            if (!router.output(0).isEmpty()) {
                nodes.add(Node.of(
                        r.given() + ".scores",
                        "GatherElements",
                        List.of(router.input(0), r.indices()),
                        List.of(router.output(0)),
                        Attribute.of("axis", -1L)));
            }
            edit.replace(router, nodes.toArray(Node[]::new));
            own(edit, r, indices);
            inputs.add(info(r.given()));
            outputs.add(info(r.own()));
        }
        edit.setInputs(inputs);
        edit.setOutputs(outputs);
        return Optional.of(model.withGraph(edit.build()));
    }

    /** Whether an output tells of choices, not of results. */
    public boolean isChoice(OutputComparison output) {
        return routers.stream().anyMatch(r -> r.own().equals(output.output()));
    }

    /**
     * The share of choices that the second computation would have made otherwise.
     *
     * @return from 0 to 1; NaN where the comparison has no choices
     */
    public double changed(ModelComparison comparison) {
        // each changed choice takes a 1 from one place and puts it to another, and the reference has a 1 for each
        // choice
        return comparison.outputs().stream()
                .filter(this::isChoice)
                .mapToDouble(o -> Math.pow(10, -o.sqnrDb() / 10) / 2)
                .average()
                .orElse(Double.NaN);
    }

    private static void own(GraphEdit edit, Router r, String indices) {
        String last = longs(edit, r.own() + ".last", -1);
        String numbers =
                longs(edit, r.own() + ".numbers", LongStream.range(0, r.count()).toArray());
        String apart = edit.freshName(r.own() + ".apart");
        String equal = edit.freshName(r.own() + ".equal");
        String hits = edit.freshName(r.own() + ".hits");
        String before = longs(edit, r.own() + ".before", -2);
        edit.append(
                Node.of(apart, "Unsqueeze", List.of(indices, last), List.of(apart)),
                Node.of(equal, "Equal", List.of(apart, numbers), List.of(equal)),
                floats(equal, hits),
                Node.of(r.own(), "ReduceSum", List.of(hits, before), List.of(r.own()), Attribute.of("keepdims", 0L)));
    }

    private static Node floats(String value, String into) {
        return Node.of(into, "Cast", List.of(value), List.of(into), Attribute.of("to", DType.F32.onnxId()));
    }

    private static String longs(GraphEdit edit, String base, long... values) {
        String name = edit.freshName(base);
        edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values)));
        return name;
    }

    private static ValueInfo info(String name) {
        return new ValueInfo(name, new TensorType(DType.F32, null));
    }
}
