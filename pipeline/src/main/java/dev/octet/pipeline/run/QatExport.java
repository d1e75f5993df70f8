package dev.octet.pipeline.run;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.plan.WeightScales;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.qat.LearnedScales;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A run in mode {@code qat} in the words of the converter: the recipe that has its codes, its scales by Linear, and its weights as products read them. What a
 * target cannot hold is refused by name, with the targets that can.
 */
public final class QatExport {
    private final Graph graph;
    private final Map<String, Tensor> masters;
    private final Set<String> turnedCopies;
    private final String where;
    private final Map<String, QuantizedLinear> linears = new LinkedHashMap<>();
    private final QatRecipes recipes;

    /**
     * The scales of a checkpoint and its weights.
     *
     * @param graph the weights go back to: a restored tie has its own copy there
     * @param masters the run's weights, F32, by their names in {@code graph}
     * @param turnedCopies of these, copies of ties that lie in the other order than what the run trained
     * @param where the run's folder
     * @throws InvalidOptionException when the graph lacks a layer of the run, or has its weight in another order
     */
    public QatExport(
            List<LearnedScales> learned,
            Graph graph,
            Map<String, Tensor> masters,
            Set<String> turnedCopies,
            String where) {
        this.graph = graph;
        this.masters = masters;
        this.turnedCopies = Set.copyOf(turnedCopies);
        this.where = where;
        Map<String, LearnedScales> inputs = new LinkedHashMap<>();
        learned.stream()
                .filter(s -> s.quantizer().tensor() == LinearTensor.INPUT)
                .forEach(s -> s.quantizer().layers().forEach(layer -> inputs.put(layer, s)));
        for (LearnedScales s : learned) {
            if (s.quantizer().tensor() == LinearTensor.WEIGHT) {
                for (String layer : s.quantizer().layers()) {
                    Node node = node(layer);
                    boolean turned = turnedCopies.contains(node.input(1));
                    linears.put(layer, new QuantizedLinear(node, s, inputs.remove(layer), master(node, s), turned));
                }
            }
        }
        this.recipes = new QatRecipes(List.copyOf(linears.values()), List.copyOf(inputs.keySet()));
    }

    private InvalidOptionException refusal(String what, String fix) {
        return new InvalidOptionException(what, where, fix);
    }

    private Node node(String layer) {
        return graph.nodes().stream()
                .filter(n -> n.id().equals(layer))
                .findFirst()
                .orElseThrow(() ->
                        refusal("the model has no Linear '" + layer + "'", "give the model of the run with --model"));
    }

    /** The weight as the run trained it. */
    private Tensor master(Node node, LearnedScales s) {
        String name = node.input(1);
        Tensor found = masters.get(name);
        if (found != null && turnedCopies.contains(name)) {
            found = found.transposed(Arena.ofAuto());
        }
        if (found == null || !found.shape().equals(s.quantizer().shape().orElse(Shape.SCALAR))) {
            throw refusal(
                    "the weight of " + node.id() + " lies in another order than the run trained it in",
                    "train with layers: [{match: '" + node.id() + "', quantize: false}]");
        }
        return found;
    }

    /**
     * The weights with those that the run quantised as its products read them: codes times scales.
     *
     * @throws InvalidOptionException when others read such a weight as it is
     */
    public Map<String, Tensor> weights() {
        Map<String, Tensor> all = new LinkedHashMap<>(masters);
        linears.forEach((layer, linear) -> {
            String name = linear.node().input(1);
            boolean alone = graph.nodes().stream()
                    .filter(n -> n.inputs().contains(name))
                    .allMatch(n -> linears.containsKey(n.id()));
            if (!alone) {
                throw refusal(
                        "'" + name + "' is quantised for " + layer + " and read in floats elsewhere: no file has both",
                        "train with layers: [{match: '" + layer + "', quantize: false}]");
            }
            Tensor read = linear.weight().forward(linear.master(), Arena.ofAuto());
            all.put(name, linear.turned() ? read.transposed(Arena.ofAuto()) : read);
        });
        return all;
    }

    /** By node id, the scales of the Linears whose weights the run quantised. */
    public Map<String, LinearScales> linears() {
        Map<String, LinearScales> all = new LinkedHashMap<>();
        linears.forEach((layer, linear) -> all.put(layer, scales(linear)));
        return all;
    }

    private static LinearScales scales(QuantizedLinear linear) {
        LearnedScales s = linear.weight();
        Blocks blocks = s.quantizer().form().blocks(linear.master().shape());
        Tensor scales = Tensor.ofFloats(Arena.ofAuto(), "scales", blocks.scaleShape(), s.scales(linear.master()));
        WeightScales own = new WeightScales(
                linear.turned() ? scales.transposed(Arena.ofAuto()) : scales,
                linear.turned() ? blocks.transposed() : blocks,
                linear.liesInOut(),
                s.global().orElse(null));
        LearnedScales input = linear.input();
        Optional<Float> scale = linear.inputScale();
        float high = input == null ? 0 : input.quantizer().settings().grid().high();
        return new LinearScales(
                scale.map(v -> (double) v * high).orElse(0.0),
                scale.orElse(null),
                null,
                scale.isPresent() ? "" : "consumers find the scale of its input at run time",
                linear.zeroPoint(),
                own);
    }

    /**
     * The recipe of graphs that has the run's codes.
     *
     * @throws InvalidOptionException when there is none; names the targets that hold them
     */
    public Recipe recipe(OnnxTarget target) {
        return recipe(target.label(), recipes.of(target));
    }

    /**
     * The recipe of checkpoints that has the run's codes in a layout.
     *
     * @throws InvalidOptionException when there is none; names the targets that hold them
     */
    public Recipe recipe(Layout layout) {
        return recipe(layout.name(), recipes.of(layout));
    }

    private Recipe recipe(String target, QatRecipes.Fit fit) {
        return fit.recipe().orElseThrow(() -> {
            List<String> able = recipes.targets();
            return refusal(
                    "--target " + target + " cannot hold what the run trained: " + fit.why(),
                    able.isEmpty()
                            ? "no target has these codes; --target onnx has the weights as floats that the run computed"
                                    + " with"
                            : "export with --target " + String.join(" or ", able));
        });
    }
}
