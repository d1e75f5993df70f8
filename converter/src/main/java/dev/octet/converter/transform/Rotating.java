package dev.octet.converter.transform;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Node;
import dev.octet.quant.merge.WeightDelta.Axis;
import dev.octet.quant.transform.Rotation;
import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.WeightStep;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Rotations of a model (SpinQuant, arXiv:2405.16406). R1 turns the residual stream: rows of the embedding, outputs of the Linears that add to
 * it, inputs of the Linears behind its norms, whose weights are folded into these first, because only a norm without weights commutes with a
 * rotation. R2 turns the values of each head, which attention only sums.
 *
 * <p>The residual stream is found by following the graph from the embeddings; whatever else reads it stops the transform.
 */
final class Rotating {
    private final ModelStructure structure;
    private final GraphEdit graph;
    private final TransformSources sources;
    private final Transform.Rotate how;
    private final ModelTransform target;
    private final Set<String> stream = new LinkedHashSet<>();
    private final Set<String> tables = new LinkedHashSet<>();
    private final List<GraphLinear> writers = new ArrayList<>();
    private final Map<InputSite.Norm, List<GraphLinear>> norms = new LinkedHashMap<>();
    private int width;

    private Rotating(Transform.Rotate how, ModelStructure structure, TransformSources sources, ModelTransform target) {
        this.structure = structure;
        this.graph = structure.graph();
        this.sources = sources;
        this.how = how;
        this.target = target;
    }

    /** The seed of signs and of matrices: the same model always becomes the same. */
    private static final long SEED = 0x0C7E7;

    /**
     * Adds R1 and R2 to what is done to a model.
     *
     * @throws UnsupportedModelException when something reads the residual stream that does not commute with a rotation; names it
     */
    static void add(Transform.Rotate how, ModelStructure structure, TransformSources sources, ModelTransform target) {
        Rotating rotating = new Rotating(how, structure, sources, target);
        rotating.follow();
        rotating.turnStream();
        rotating.turnHeads();
    }

    private void follow() {
        for (Node n : graph.nodes()) {
            visit(n);
        }
        if (norms.isEmpty()) {
            throw refuse("there is no residual stream from an embedding to a norm with Linears behind it", "the graph");
        }
        for (String value : stream) {
            if (graph.isOutput(value)) {
                throw refuse("the residual stream is an output of the model", "value '" + value + "'");
            }
        }
    }

    private void visit(Node n) {
        if (n.is("Gather") && isTable(n.input(0)) && n.intAttribute("axis", 0) == 0) {
            tables.add(n.input(0));
            stream.add(n.output());
            return;
        }
        List<String> turned = n.inputs().stream().filter(stream::contains).toList();
        if (turned.isEmpty()) {
            return;
        }
        boolean scaled = n.is("Mul")
                && n.inputs().stream().filter(i -> !stream.contains(i)).allMatch(structure::isScalar);
        if (n.is("Cast") || n.is("Identity") || n.is("Dropout") || scaled) {
            stream.add(n.output());
        } else if (n.is("Add")) {
            n.inputs().stream().filter(i -> !stream.contains(i)).forEach(i -> writer(i, n));
            stream.add(n.output());
        } else if (n.isOctet(CanonicalOps.RMS_NORM)) {
            norm(n);
        } else if (n.isOctet(CanonicalOps.LAYER_NORM)) {
            throw refuse(
                    "LayerNorm subtracts the mean of the channels, which does not commute with a rotation of them",
                    "node " + n.id());
        } else {
            throw refuse(
                    n.opType() + " reads the residual stream and does not commute with a rotation", "node " + n.id());
        }
    }

    private boolean isTable(String constant) {
        return graph.initializer(constant) != null
                && sources.weights().shape(constant).rank() == 2;
    }

    /** What is added to the residual stream must come from a Linear whose outputs can be turned. */
    private void writer(String value, Node add) {
        Node producer = graph.producer(value);
        GraphLinear linear = structure.linear(producer).orElse(null);
        if (linear == null || !graph.hasSingleUse(value)) {
            throw refuse(
                    producer != null && producer.isOctet(CanonicalOps.RMS_NORM)
                            ? "the norm " + producer.id()
                                    + " lies between a Linear and the residual; its weight cannot be folded into a"
                                    + " Linear behind it"
                            : "what " + (producer == null ? value : producer.id() + " (" + producer.opType() + ")")
                                    + " adds to the residual stream comes from no Linear of its own",
                    "node " + add.id());
        }
        writers.add(linear);
    }

    private void norm(Node n) {
        InputSite.Norm norm = (InputSite.Norm) structure
                .norm(n)
                .orElseThrow(() -> refuse("the weight of the norm is no constant of its own", "node " + n.id()));
        List<GraphLinear> readers = new ArrayList<>();
        for (Node reader : graph.consumers(n.output())) {
            Optional<GraphLinear> linear =
                    structure.linear(reader).filter(_ -> reader.input(0).equals(n.output()));
            readers.add(linear.orElseThrow(() -> refuse(
                    "the norm cannot be folded into the Linears behind it: " + reader.id() + " (" + reader.opType()
                            + ") reads it, too",
                    "node " + n.id())));
        }
        if (graph.isOutput(n.output()) || readers.isEmpty()) {
            throw refuse("the norm cannot be folded: its output is an output of the model", "node " + n.id());
        }
        norms.put(norm, readers);
        width = readers.getFirst().in();
    }

    private UnsupportedModelException refuse(String what, String which) {
        return new UnsupportedModelException(
                what,
                sources.where() + ", " + which,
                "rotations are for decoders with RMSNorm and nothing else on the residual (Llama, Mistral, Qwen);"
                        + " --transform smoothquant or awq may do here");
    }

    private void turnStream() {
        Rotation r1 = Rotation.of(how.kind(), width, SEED);
        String name = "R1, " + r1.text();
        for (String table : tables) {
            Map<String, GraphLinear> heads = new LinkedHashMap<>();
            norms.values()
                    .forEach(all ->
                            all.stream().filter(l -> l.weight().equals(table)).forEach(l -> heads.put(l.node(), l)));
            for (GraphLinear head : heads.values()) {
                untie(head, table);
            }
            target.step(table, new WeightStep.Turn("rows x " + name, Axis.COLUMN, r1));
        }
        norms.forEach((norm, readers) -> {
            Supplier<double[]> factors = new Once<>(() -> weightOf(norm));
            List<String> modules = new ArrayList<>();
            for (GraphLinear l : readers) {
                String weight = nameOf(l);
                target.step(
                        weight, new WeightStep.Scale("inputs x " + norm.text() + " (folded)", l.inputs(), factors, 0));
                target.step(weight, new WeightStep.Turn("inputs x " + name, l.inputs(), r1));
                String module = GraphLinear.module(weight);
                target.input(module, InputChange.divided(factors).then(InputChange.turned(r1)));
                modules.add(module);
            }
            target.step(norm.weight(), new WeightStep.Fill("folded into " + modules.getFirst(), 1 - norm.around()));
            target.fold(new TransformStep(
                    how.text(), norm.text(), modules, "weight of the norm folded, inputs turned by " + name));
        });
        List<String> written = new ArrayList<>();
        for (GraphLinear l : writers) {
            target.step(l.weight(), new WeightStep.Turn("outputs x " + name, l.outputs(), r1));
            if (l.bias() != null) {
                target.step(l.bias(), new WeightStep.Turn("x " + name, Axis.COLUMN, r1));
            }
            written.add(l.module());
        }
        target.fold(new TransformStep(
                how.text(),
                "the residual stream",
                Stream.concat(tables.stream().map(GraphLinear::module), written.stream())
                        .toList(),
                "turned by " + name));
    }

    private double[] weightOf(InputSite.Norm norm) {
        float[] stored = new float[sources.weights().cols(norm.weight())];
        sources.weights().rows(norm.weight()).read(0, stored);
        double[] weight = new double[stored.length];
        for (int i = 0; i < weight.length; i++) {
            weight[i] = stored[i] + norm.around();
        }
        return weight;
    }

    private final Map<String, String> untied = new LinkedHashMap<>();

    private String nameOf(GraphLinear l) {
        return untied.getOrDefault(l.node(), l.weight());
    }

    /** The head takes the last norm's weight, which the embedding must not have: it gets a weight of its own. */
    private void untie(GraphLinear head, String table) {
        String module = head.node().replaceFirst("^/", "").replace('/', '.');
        String own = module + ".weight";
        untied.put(head.node(), own);
        target.copy(own, table);
        target.note(own + " gets numbers of its own: it was tied to " + table
                + ", but the last norm is folded into it alone");
    }

    private void turnHeads() {
        for (InputSite site : structure.sites()) {
            if (!(site.maker() instanceof InputSite.Rows rows) || !rows.ofHeads()) {
                if (site.maker() instanceof InputSite.Other other) {
                    site.readers().stream()
                            .filter(l -> !norms.values().stream().anyMatch(all -> all.contains(l)))
                            .forEach(l -> target.leave(l.module(), other.text()));
                }
                continue;
            }
            Rotation r2 = Rotation.of(how.kind(), rows.headSize(), SEED + 1);
            if (rows.first() != 0 || rows.count() != rows.linear().out()) {
                site.readers().forEach(l -> target.leave(l.module(), "R2 needs a Linear for the values alone"));
                continue;
            }
            turnHeads(site, rows, r2);
        }
    }

    private void turnHeads(InputSite site, InputSite.Rows rows, Rotation r2) {
        String name = "R2, " + r2.text();
        GraphLinear v = rows.linear();
        target.changeValues(v.module());
        target.step(v.weight(), new WeightStep.Turn("outputs x " + name, v.outputs(), r2));
        @Nullable String bias = v.bias();
        if (bias != null) {
            target.step(bias, new WeightStep.Turn("x " + name, Axis.COLUMN, r2));
        }
        List<String> modules = new ArrayList<>();
        for (GraphLinear l : site.readers()) {
            target.step(l.weight(), new WeightStep.Turn("inputs x " + name, l.inputs(), r2));
            target.input(l.module(), InputChange.turned(r2));
            modules.add(l.module());
        }
        target.fold(new TransformStep(how.text(), rows.text(), modules, "each head turned by " + name));
    }
}
