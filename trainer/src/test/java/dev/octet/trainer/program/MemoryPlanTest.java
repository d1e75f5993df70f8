package dev.octet.trainer.program;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.cast.Cast;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MemoryPlanTest {
    private static OperandType f32(long n) {
        return new OperandType(DType.F32, Shape.of(n));
    }

    private static void add(ProgramBuilder b, Value a, Value x, Value y) {
        b.step(Phase.FORWARD, "add", new Accumulate(a.type(), x.type()), List.of(a, x), List.of(y));
    }

    @Test
    void a_chain_needs_two_buffers_only() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value at = b.temporary("t0", f32(16));
        add(b, w, w, at);
        for (int i = 1; i < 10; i++) {
            Value next = b.temporary("t" + i, f32(16));
            add(b, at, w, next);
            at = next;
        }
        assertEquals(2 * 64, MemoryPlan.of(b.build()).arenaBytes());
    }

    /** Of the first step of three: it lies where the third has its result, beside what the first reads and writes. */
    @Test
    void a_workspace_lies_where_other_steps_have_their_results() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value x = b.temporary("x", f32(16));
        add(b, w, w, x);
        Value y = b.temporary("y", f32(16));
        add(b, x, w, y);
        Value z = b.temporary("z", f32(16));
        add(b, y, w, z);
        Program program = b.build();
        MemoryPlan.Workspace space = new MemoryPlan.Workspace(program.steps().subList(0, 1), 64);
        MemoryPlan plan = MemoryPlan.of(
                program, new MemoryPlan.Layout(List.of(), Map.of(), List.of(), Map.of(), List.of(space), Map.of()));
        assertEquals(2 * 64, plan.arenaBytes());
        assertTrue(plan.offset(space) != plan.offset(x));
    }

    @Test
    void a_value_with_long_rows_takes_the_bytes_that_the_layout_says() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value x = b.temporary("x", f32(16));
        add(b, w, w, x);
        MemoryPlan.Layout wide =
                new MemoryPlan.Layout(List.of(), Map.of(), List.of(), Map.of(), List.of(), Map.of(x, 200L));
        assertEquals(256, MemoryPlan.of(b.build(), wide).arenaBytes());
    }

    @Test
    void a_view_lies_where_it_looks_and_keeps_it_alive() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value x = b.temporary("x", f32(16));
        add(b, w, w, x);
        Value view = b.temporary("view", f32(16));
        b.step(Phase.FORWARD, "view", new Cast(f32(16), DType.F32), List.of(x), List.of(view));
        Value other = b.temporary("other", f32(16));
        add(b, w, w, other);
        Value y = b.temporary("y", f32(16));
        add(b, view, other, y);
        MemoryPlan plan = MemoryPlan.of(b.build());
        assertSame(plan.root(x), plan.root(view));
        assertEquals(plan.offset(x), plan.offset(view));
        assertTrue(plan.offset(other) != plan.offset(x));
    }

    @Test
    void an_output_that_is_a_view_keeps_what_it_looks_at_to_the_end() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value x = b.temporary("x", f32(16));
        add(b, w, w, x);
        Value view = b.temporary("view", f32(16));
        b.step(Phase.FORWARD, "view", new Cast(f32(16), DType.F32), List.of(x), List.of(view));
        b.output("out", view);
        Value later = b.temporary("later", f32(16));
        add(b, w, w, later);
        MemoryPlan plan = MemoryPlan.of(b.build());
        assertTrue(plan.offset(later) != plan.offset(view));
    }

    @Test
    void a_view_of_a_parameter_takes_no_room() {
        ProgramBuilder b = new ProgramBuilder();
        Value w = b.parameter("w", f32(16));
        Value view = b.temporary("view", f32(16));
        b.step(Phase.FORWARD, "view", new Cast(f32(16), DType.F32), List.of(w), List.of(view));
        MemoryPlan plan = MemoryPlan.of(b.build());
        assertSame(w, plan.root(view));
        assertEquals(0, plan.arenaBytes());
    }

    /** Random programs: whatever two values live at the same time must not overlap, and the arena is no smaller than the most that lives. */
    @TestFactory
    Stream<DynamicTest> values_that_live_together_do_not_overlap() {
        return IntStream.range(0, 40).mapToObj(seed -> dynamicTest("seed " + seed, () -> checkRandom(seed)));
    }

    private static void checkRandom(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ProgramBuilder b = new ProgramBuilder();
        List<Value> made = new ArrayList<>();
        made.add(b.input("in", f32(1 + random.nextInt(50))));
        int steps = 3 + random.nextInt(40);
        for (int i = 0; i < steps; i++) {
            Value x = made.get(Math.max(0, made.size() - 1 - random.nextInt(6)));
            Value y = b.temporary("t" + i, f32(1 + random.nextInt(100)));
            made.add(y);
            b.add(new Step(
                    random.nextBoolean() || i < steps / 2 ? Phase.FORWARD : Phase.BACKWARD,
                    "n",
                    op(x),
                    false,
                    List.of(x),
                    List.of(y),
                    List.of(),
                    List.of(),
                    Set.of()));
        }
        b.output("out", made.get(made.size() / 2));
        Program program = b.build();
        MemoryPlan plan = MemoryPlan.of(program);
        long[] first = new long[program.values().size()];
        long[] last = new long[first.length];
        Arrays.fill(first, Long.MAX_VALUE);
        Arrays.fill(last, -1);
        for (int k = 0; k < program.steps().size(); k++) {
            for (Value v : program.steps().get(k).operands()) {
                first[v.id()] = Math.min(first[v.id()], k);
                last[v.id()] = Math.max(last[v.id()], k);
            }
        }
        first[0] = -1;
        last[0] = Long.MAX_VALUE;
        last[made.get(made.size() / 2).id()] = Long.MAX_VALUE;
        for (Value v : program.values()) {
            for (Value u : program.values()) {
                boolean together = v.id() != u.id()
                        && last[v.id()] >= 0
                        && last[u.id()] >= 0
                        && first[v.id()] <= last[u.id()]
                        && first[u.id()] <= last[v.id()];
                boolean apart = !together
                        || plan.offset(v) + v.type().byteSize() <= plan.offset(u)
                        || plan.offset(u) + u.type().byteSize() <= plan.offset(v);
                assertTrue(apart, v + " and " + u);
            }
        }
    }

    /** Any operator that is not a view: only operands count here. */
    private static Op op(Value x) {
        return new Accumulate(x.type(), x.type());
    }
}
