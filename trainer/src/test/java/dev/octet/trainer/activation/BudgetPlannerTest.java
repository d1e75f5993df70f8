package dev.octet.trainer.activation;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BudgetPlannerTest {
    private static final int ROWS = 16;
    private static final int WIDTH = 16;

    /** Residual blocks of these inner widths behind each other; {@code residual} blocks keep their input for the sum. */
    private static Program program(boolean residual, String name, int... inner) {
        List<Tensor> weights = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        linear(nodes, weights, "in", "x", "h0", WIDTH, WIDTH);
        for (int i = 0; i < inner.length; i++) {
            String b = name.formatted(i);
            linear(nodes, weights, b + "up", "h" + i, b + "u", inner[i], WIDTH);
            nodes.add(Node.of(b + "act", "Gelu", List.of(b + "u"), List.of(b + "a")));
            String out = "h" + (i + 1);
            linear(nodes, weights, b + "down", b + "a", residual ? b + "d" : out, WIDTH, inner[i]);
            if (residual) {
                nodes.add(Node.of(b + "add", "Add", List.of("h" + i, b + "d"), List.of(out)));
            }
        }
        linear(nodes, weights, "head", "h" + inner.length, "y", 1, WIDTH);
        nodes.add(Node.of("mean", "ReduceMean", List.of("y"), List.of("loss"), Attribute.of("keepdims", 0)));
        Graph graph = Graph.of(
                "stack",
                nodes,
                weights.stream().map(Initializer::of).toList(),
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of(ROWS), Dim.of(WIDTH))))),
                List.of(new ValueInfo("loss", new TensorType(DType.F32, List.of()))));
        TreeSet<String> names = new TreeSet<>();
        weights.forEach(w -> names.add(w.name()));
        return Autodiff.program(
                GraphModel.of(graph, 10, 21), ProgramOptions.training("loss", names, names, PrecisionPolicy.FP32));
    }

    private static void linear(List<Node> nodes, List<Tensor> all, String name, String x, String y, int out, int in) {
        all.add(Tensor.ofFloats(Arena.ofAuto(), name + ".weight", Shape.of(out, in), new float[out * in]));
        nodes.add(Node.of(
                name,
                "Linear",
                Node.OCTET_DOMAIN,
                List.of(x, name + ".weight"),
                List.of(y),
                Attribute.of("transB", 1)));
    }

    private static long cost(Program program) {
        return program.steps().stream()
                .filter(Step::repeats)
                .mapToLong(s -> StepCost.of(s).weight())
                .sum();
    }

    /** Every division of a chain into segments that are kept, one unit long, or repeated. */
    private static void divisions(int units, int from, int[] segmentOf, List<int[]> all) {
        if (from == units) {
            all.add(segmentOf.clone());
            return;
        }
        segmentOf[from] = -1;
        divisions(units, from + 1, segmentOf, all);
        for (int to = from; to < units; to++) {
            Arrays.fill(segmentOf, from, to + 1, from);
            divisions(units, to + 1, segmentOf, all);
        }
    }

    private static void requireOptimal(Program program) {
        Tape tape = new Tape(program);
        int[] units = BudgetPlanner.units(tape, Layers.in(program));
        BudgetPlanner planner = new BudgetPlanner(tape, units, WeightCasts.OF_A_STEP);
        assertTrue(planner.count() >= 3, planner.count() + " units");
        List<int[]> all = new ArrayList<>();
        divisions(planner.count(), 0, new int[planner.count()], all);
        long[] peaks = new long[all.size()];
        long[] costs = new long[all.size()];
        for (int i = 0; i < peaks.length; i++) {
            int[] of = all.get(i);
            Program p = planner.repeating(
                    Arrays.stream(units).map(u -> u < 0 ? -1 : of[u]).toArray());
            peaks[i] = LiveBytes.peak(p);
            costs[i] = cost(p);
        }
        for (long limit : Arrays.stream(peaks).distinct().sorted().toArray()) {
            long best = Long.MAX_VALUE;
            for (int i = 0; i < peaks.length; i++) {
                best = peaks[i] <= limit ? Math.min(best, costs[i]) : best;
            }
            var division = planner.division(limit);
            assertTrue(division.isPresent(), "none for " + limit);
            Program chosen = planner.repeating(planner.blocks(division.get()));
            assertTrue(LiveBytes.peak(chosen) <= limit, LiveBytes.peak(chosen) + " of " + limit);
            assertEquals(best, cost(chosen), "cost within " + limit);
        }
        long least = Arrays.stream(peaks).min().orElseThrow();
        assertTrue(planner.division(least - MemoryPlan.ALIGNMENT).isEmpty(), "less than the least");
    }

    @Test
    void no_other_division_of_layers_is_cheaper_within_any_budget() {
        requireOptimal(program(true, "layers.%d.", 32, 64, 16, 48));
        requireOptimal(program(true, "layers.%d.", 64, 16, 64, 16, 32));
    }

    @Test
    void no_other_division_of_a_chain_without_names_is_cheaper_within_any_budget() {
        requireOptimal(program(false, "block_%d_", 32, 64, 16));
    }

    @Test
    void the_arena_is_within_the_budget_and_a_smaller_budget_repeats_more() {
        Program plain = program(true, "layers.%d.", 64, 64, 64, 64, 64, 64);
        long before = MemoryPlan.of(plain).arenaBytes();
        long least = leastOf(plain);
        assertTrue(least < 0.6 * before, least + " of " + before);
        long cost = 0;
        for (double part : new double[] {0.9, 0.5, 0}) {
            long budget = least + (long) (part * (before - least));
            ActivationPlan plan = ActivationPlan.of(
                    plain,
                    new ActivationSettings(new Recompute.Budget(budget), Kept.AS_THEY_ARE),
                    WeightCasts.OF_A_LAYER);
            assertTrue(plan.after() <= budget, plan.after() + " of " + budget);
            assertTrue(cost(plan.program()) >= cost);
            cost = cost(plan.program());
        }
        assertNotEquals(0, cost);
    }

    private static long leastOf(Program plain) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> ActivationPlan.of(
                        plain,
                        new ActivationSettings(new Recompute.Budget(1), Kept.AS_THEY_ARE),
                        WeightCasts.OF_A_LAYER));
        assertTrue(
                requireNonNull(e.getMessage()).contains("when as much as possible is computed again; the budget is 1"),
                e.getMessage());
        return Long.parseLong(e.fix().replaceAll("set budget: (\\d+) .*", "$1"));
    }
}
