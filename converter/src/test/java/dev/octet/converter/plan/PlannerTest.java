package dev.octet.converter.plan;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.TensorStatistics;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlannerTest {
    private final Arena arena = Arena.ofShared();

    @AfterEach
    void close() {
        arena.close();
    }

    /** x -> norm -> first -> second -> y; weights 2 x 2. */
    private Graph chain(float[] firstWeight, float[] secondWeight, Node... more) {
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of("norm", "LayerNormalization", Node.OCTET_DOMAIN, List.of("x", "g", "b"), List.of("h")),
                Node.of("first", "Linear", Node.OCTET_DOMAIN, List.of("h", "first.weight"), List.of("m")),
                Node.of("second", "Linear", Node.OCTET_DOMAIN, List.of("m", "second.weight"), List.of("y"))));
        nodes.addAll(List.of(more));
        TensorType type = new TensorType(DType.F32, List.of(Dim.of("batch"), Dim.of(2)));
        return Graph.of(
                "chain",
                nodes,
                List.of(
                        Initializer.of(Tensor.ofFloats(arena, "g", Shape.of(2), 1, 1)),
                        Initializer.of(Tensor.ofFloats(arena, "b", Shape.of(2), 0, 0)),
                        Initializer.of(Tensor.ofFloats(arena, "first.weight", Shape.of(2, 2), firstWeight)),
                        Initializer.of(Tensor.ofFloats(arena, "second.weight", Shape.of(2, 2), secondWeight))),
                List.of(new ValueInfo("x", type)),
                List.of(new ValueInfo("y", type)));
    }

    private static final float[] FINE = {1, -2, 3, -4};

    private static String reason(Plan plan, String node) {
        Decision d = plan.decisions().stream()
                .filter(x -> x.node().equals(node))
                .findFirst()
                .orElseThrow();
        return assertInstanceOf(Decision.Kept.class, d).reason();
    }

    @Test
    void every_linear_and_the_norm_before_it_are_converted_and_share_what_is_tapped() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of());
        assertEquals(3, plan.converted().size());
        assertEquals(List.of("h", "m"), List.copyOf(plan.taps()));
    }

    @Test
    void a_weight_only_plan_needs_no_statistics_and_keeps_the_norm_with_a_reason() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_WEIGHT_ONLY, List.of());
        assertEquals(2, plan.converted(LayerKind.LINEAR).size());
        assertTrue(plan.taps().isEmpty());
        assertTrue(reason(plan, "norm").contains("leaves activations as they are"));
    }

    @Test
    void the_weight_alone_of_a_linear_is_quantised_where_asked_for_and_its_norm_is_then_kept() {
        Plan all = Planner.plan(chain(FINE, FINE), Recipes.GRAPH_INT8, List.of());
        Plan plan = all.withWeightsAlone(List.of(Pattern.compile("first")));
        assertEquals(2, plan.converted(LayerKind.LINEAR).size());
        assertEquals(List.of("m"), List.copyOf(plan.taps()));
        assertEquals(List.of("second"), List.copyOf(plan.integerProducts()));
        assertTrue(reason(plan, "norm").contains("no INT8 Linear reads its output"));
        assertEquals(
                all.recipe().weight(),
                plan.recipe(plan.converted(LayerKind.LINEAR).getFirst()).weight());
        assertTrue(plan.text().contains("first: int8, weights only"), plan.text());
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> all.withWeightsAlone(List.of(Pattern.compile("third"))));
        assertTrue(e.fix().contains("first.weight"), e.fix());
    }

    @Test
    void one_value_is_not_quantised_in_two_ways() {
        Node other = Node.of("other", "Linear", Node.OCTET_DOMAIN, List.of("h", "second.weight"), List.of("o"));
        Plan plan = Planner.plan(chain(FINE, FINE, other), Recipes.GRAPH_INT8, List.of());
        assertThrows(
                IllegalArgumentException.class,
                () -> new Plan(plan.recipe(), plan.decisions(), Map.of("other", Recipes.INT8_DYNAMIC)));
    }

    @Test
    void a_weight_with_nan_is_kept_with_the_reason() {
        Plan plan = Planner.plan(chain(new float[] {1, Float.NaN, 3, 4}, FINE), Recipes.FP8_PER_CHANNEL, List.of());
        assertTrue(reason(plan, "first").contains("NaN"));
        assertTrue(reason(plan, "norm").contains("no FP8 Linear reads its output"));
    }

    @Test
    void a_weight_of_zeros_is_kept_with_the_reason() {
        assertTrue(reason(Planner.plan(chain(new float[4], FINE), Recipes.FP8_PER_CHANNEL, List.of()), "first")
                .contains("all zero"));
    }

    @Test
    void a_weight_tied_to_an_embedding_is_kept_with_the_reason() {
        Node embedding = Node.of("embed", "Gather", List.of("second.weight", "ids"), List.of("e"));
        assertTrue(reason(Planner.plan(chain(FINE, FINE, embedding), Recipes.FP8_PER_CHANNEL, List.of()), "second")
                .contains("tied to the embedding embed"));
    }

    @Test
    void control_flow_is_kept_with_the_reason() {
        Graph branch = Graph.of("branch", List.of(), List.of(), List.of(), List.of(new ValueInfo("h", null)));
        Node choice = Node.of(
                "choice",
                "If",
                List.of("c"),
                List.of("z"),
                new Attribute("then_branch", new Attribute.OfGraph(branch)));
        assertTrue(reason(Planner.plan(chain(FINE, FINE, choice), Recipes.FP8_PER_CHANNEL, List.of()), "choice")
                .contains("passes through"));
    }

    /** Loop(If(x · inner, outer weight read from a body), weight behind a Transpose), and products that are not Linears. */
    @Test
    void every_layer_in_a_body_is_kept_with_the_reason_however_deep() {
        Graph inner = Graph.of(
                "inner",
                List.of(
                        Node.of("a", "MatMul", List.of("h", "first.weight"), List.of("p")),
                        Node.of("b", "LayerNormalization", List.of("p", "g", "b"), List.of("q")),
                        Node.of("c", "MatMul", List.of("first.weight", "q"), List.of("r"))),
                List.of(),
                List.of(),
                List.of(new ValueInfo("r", null)));
        Graph outer = Graph.of(
                "outer",
                List.of(
                        Node.of("turned", "Transpose", List.of("own"), List.of("own_t")),
                        Node.of("d", "Gemm", List.of("h", "own_t"), List.of("s")),
                        Node.of("e", "MatMul", List.of("s", "h"), List.of("t")),
                        Node.of(
                                "deep",
                                "If",
                                List.of("c"),
                                List.of("u"),
                                new Attribute("then_branch", new Attribute.OfGraph(inner)))),
                List.of(Initializer.of(Tensor.ofFloats(arena, "own", Shape.of(2, 2), FINE))),
                List.of(),
                List.of(new ValueInfo("u", null)));
        Node loop = Node.of(
                "loop", "Loop", List.of("n"), List.of("z"), new Attribute("body", new Attribute.OfGraph(outer)));
        Plan plan = Planner.plan(chain(FINE, FINE, loop), Recipes.FP8_PER_CHANNEL, List.of(Pattern.compile("deep")));
        assertEquals("Loop passes through with its bodies, 2 Linear in them", reason(plan, "loop"));
        assertEquals(
                List.of("loop/body/d", "loop/body/deep/then_branch/a", "loop/body/deep/then_branch/b"),
                plan.kept().stream()
                        .map(Decision.Kept::node)
                        .filter(n -> n.startsWith("loop/"))
                        .toList());
        assertTrue(reason(plan, "loop/body/deep/then_branch/a").contains("a body of Loop 'loop'"));
        assertEquals(4, plan.count(LayerKind.LINEAR));
        assertEquals(2, plan.converted(LayerKind.LINEAR).size());
    }

    @Test
    void a_plan_without_anything_to_calibrate_says_why() {
        assertTrue(nothing(Planner.plan(chain(FINE, FINE), Recipes.FP8_WEIGHT_ONLY, List.of()))
                .contains("recipe fp8-weight-only needs no statistics"));
        assertTrue(nothing(Planner.plan(chain(new float[4], new float[4]), Recipes.FP8_PER_CHANNEL, List.of()))
                .contains("all 2 Linears are kept"));
        Graph none = Graph.of("none", List.of(), List.of(), List.of(), List.of());
        assertTrue(
                nothing(Planner.plan(none, Recipes.FP8_PER_CHANNEL, List.of())).contains("the model has no Linear"));
        Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of()).requireTaps();
    }

    private static String nothing(Plan plan) {
        return assertThrows(UnsupportedModelException.class, plan::requireTaps).what();
    }

    @Test
    void a_pattern_keeps_what_it_finds_in_node_or_weight_names() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of(Pattern.compile("second\\.w")));
        assertTrue(reason(plan, "second").contains("second\\.w"));
        assertEquals(List.of("h"), List.copyOf(plan.taps()));
    }

    @Test
    void a_pattern_that_finds_nothing_is_refused_by_name() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of(Pattern.compile("frist"))));
        assertTrue(e.what().contains("frist"));
    }

    private static Statistics statistics(Map<String, float[]> seen) {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        seen.forEach((name, values) -> {
            StatisticsAccumulator a = new StatisticsAccumulator();
            a.add(MemorySegment.ofArray(values));
            tensors.put(name, a.snapshot());
        });
        return Statistics.of("0".repeat(64), new DataPart("1".repeat(64), "data", 1, 1), tensors);
    }

    @Test
    void the_scale_of_an_activation_maps_its_clip_to_the_largest_number() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of());
        Statistics seen = statistics(Map.of("h", new float[] {1, -7}, "m", new float[] {448}));
        ActivationScales solved = ActivationScales.solve(plan, seen, new Absmax());
        assertEquals(7f / 448, requireNonNull(solved.scales().get("h")).scale());
        assertEquals(1f, requireNonNull(solved.scales().get("m")).scale());
    }

    @Test
    void linears_whose_input_was_always_zero_or_not_finite_are_kept_and_so_is_the_norm_before_them() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of());
        Statistics seen = statistics(Map.of("h", new float[] {0, 0}, "m", new float[] {1, Float.POSITIVE_INFINITY}));
        Plan solved = ActivationScales.solve(plan, seen, new Absmax()).plan();
        assertTrue(solved.converted().isEmpty());
        assertTrue(reason(solved, "first").contains("zero in all of calibration"));
        assertTrue(reason(solved, "second").contains("NaN or infinite"));
        assertTrue(reason(solved, "norm").contains("zero in all of calibration"));
    }

    @Test
    void statistics_of_another_plan_are_refused_by_the_missing_value() {
        Plan plan = Planner.plan(chain(FINE, FINE), Recipes.FP8_PER_CHANNEL, List.of());
        InvalidDataException e = assertThrows(
                InvalidDataException.class,
                () -> ActivationScales.solve(plan, statistics(Map.of("h", FINE)), new Absmax()));
        assertTrue(e.what().contains("'m'"));
    }
}
