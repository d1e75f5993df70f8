package dev.octet.pipeline.run;

import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.trained.ModuleState;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.LayerScales;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.precision.TensorScale;
import dev.octet.trainer.qat.LearnedScales;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a run knows of scales, in the words of the converter, and which recipes come nearest to how it computed.
 *
 * @param layers the Linears whose forward product was in FP8; none when the run was not
 * @param learned what fake quantisation of a run in mode {@code qat} multiplied codes with; none in other modes
 */
public record RunScales(List<LayerScales> layers, List<LearnedScales> learned) {
    /**
     * The scales of a checkpoint.
     *
     * @param graph as the run trained it
     */
    public static RunScales of(PrecisionPolicy policy, GraphModel graph, TrainingState state) {
        return new RunScales(
                policy instanceof Fp8Policy fp8
                        ? fp8.layers(graph.graph()).stream()
                                .map(l -> LayerScales.of(l, state.state(), state.parameters()))
                                .toList()
                        : List.of(),
                List.of());
    }

    /** These and scales of fake quantisation. */
    public RunScales with(List<LearnedScales> scales) {
        return new RunScales(layers, List.copyOf(scales));
    }

    /** Whether a static scale of any input is known. */
    public boolean hasInputs() {
        return layers.stream().anyMatch(s -> s.input() != null);
    }

    private boolean hasOnePerWeight() {
        return layers.stream().anyMatch(s -> s.weight() != null);
    }

    /** Why inputs have no static scale; empty when the run was not in FP8. */
    public Optional<String> reason() {
        return layers.stream().findFirst().map(LayerScales::reason);
    }

    /** By node id of the canonical model. */
    public Map<String, LinearScales> linears() {
        Map<String, LinearScales> scales = new LinkedHashMap<>();
        for (LayerScales s : layers) {
            TensorScale input = s.input();
            TensorScale weight = s.weight();
            Float inputScale = input == null || input.scale() < Float.MIN_NORMAL ? null : input.scale();
            scales.put(
                    s.layer().node(),
                    new LinearScales(
                            input == null ? 0 : input.amax(),
                            inputScale,
                            weight == null || weight.scale() < Float.MIN_NORMAL ? null : weight.quantScale(),
                            inputScale != null ? "" : input == null ? s.reason() : "its input was all but zero"));
        }
        return scales;
    }

    /**
     * State of the modules that Transformer Engine keeps state for: those under delayed scaling.
     *
     * @param exported the graph the weights go back to: a restored tie has its own copy there
     */
    public List<ModuleState> states(Graph exported) {
        List<ModuleState> states = new ArrayList<>();
        for (LayerScales s : layers) {
            TensorScale input = s.input();
            TensorScale weight = s.weight();
            if (input == null
                    || weight == null
                    || input.history().isEmpty()
                    || weight.history().isEmpty()) {
                continue;
            }
            TensorScale gradient = s.gradOutput();
            states.add(new ModuleState(
                    StoredWeight.moduleOf(weight(exported, s.layer().node())),
                    List.of(slot(input), slot(weight)),
                    gradient == null || gradient.history().isEmpty() ? List.of() : List.of(slot(gradient))));
        }
        return states;
    }

    private static String weight(Graph graph, String id) {
        Node linear = graph.nodes().stream()
                .filter(n -> n.id().equals(id))
                .findFirst()
                .orElseThrow();
        return linear.input(1);
    }

    private static ModuleState.Slot slot(TensorScale scale) {
        return new ModuleState.Slot(scale.quantScale(), scale.history());
    }

    /** What comes nearest to how the run computed, of the recipes of graphs. */
    public Recipe nearest() {
        return !hasInputs() ? Recipes.FP8_WEIGHT_ONLY : hasOnePerWeight() ? Recipes.FP8_PER_TENSOR : Recipes.GRAPH_FP8;
    }

    /** What comes nearest to how the run computed, of the recipes of checkpoints. */
    public Recipe nearest(Layout layout) {
        TrainingRecipe trained =
                layers.isEmpty() ? null : layers.getFirst().layer().recipe();
        return switch (trained) {
            case TrainingRecipe.BlockScaling _ -> Recipes.FP8_BLOCK;
            case TrainingRecipe.Mxfp8 _ -> Recipes.MXFP8;
            case null, default ->
                hasInputs() && hasOnePerWeight()
                        ? Recipes.CHECKPOINT_FP8
                        : layout.name().equals("fp8") ? Recipes.FP8_BLOCK : Recipes.FP8_DYNAMIC;
        };
    }
}
