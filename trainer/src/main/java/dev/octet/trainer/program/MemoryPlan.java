package dev.octet.trainer.program;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * Memory plan of the values that live within a micro-batch: offsets in one arena, where values with disjoint lifetimes share memory.
 *
 * <p>A value lives from the first step that touches it to the last. Inputs and outputs live throughout: they are fed before the steps and
 * read after them. A view and its origin are one value here ({@link Roots}).
 *
 * <p>Values are placed by decreasing size, each in the smallest sufficient gap between the placed values that live at the same time.
 */
public final class MemoryPlan {
    /** Alignment of offsets in bytes: a cache line, the widest vector. */
    public static final long ALIGNMENT = 64;

    private final Roots roots;
    private final List<Value> values;
    private final IdentityHashMap<Form, Integer> forms = new IdentityHashMap<>();
    private final IdentityHashMap<Workspace, Integer> workspaces = new IdentityHashMap<>();
    private final Map<Integer, Long> offsets = new HashMap<>();
    private long arenaBytes;

    /**
     * Another form of a value, such as its transpose, that a device has in the arena. It lives from the step that makes the value to the last one that
     * takes the form.
     */
    public record Form(Value of, String name, long bytes, Step last) {}

    /** Memory that steps need beside their operands, from the first of them to the last. */
    public record Workspace(List<Step> steps, long bytes) {}

    /**
     * What a device does otherwise than step by step.
     *
     * @param together groups of steps that run together, each in program order: no result of a group overlaps an operand of the same group
     * @param parts temporary values that lie within another one, by which it is: both live as long as any of them
     * @param forms of values in the arena
     * @param spared values that a step names and does not touch, because it takes a form of them or makes them again
     * @param workspaces in the arena
     * @param bytes of values that take more than their elements
     */
    public record Layout(
            Collection<List<Step>> together,
            Map<Value, Value> parts,
            List<Form> forms,
            Map<Step, Set<Value>> spared,
            List<Workspace> workspaces,
            Map<Value, Long> bytes) {
        /** Steps that run one by one on what they name. */
        public static final Layout STEP_BY_STEP = parts(Map.of());

        /** Such steps, where some values lie within others. */
        public static Layout parts(Map<Value, Value> parts) {
            return new Layout(List.of(), parts, List.of(), Map.of(), List.of(), Map.of());
        }
    }

    /** @param number that orders lives of the same size */
    private record Life(int number, long bytes, int first, int last) {
        boolean overlaps(Life other) {
            return first <= other.last && other.first <= last;
        }
    }

    private record Placed(Life life, long offset) {
        long end() {
            return offset + life.bytes();
        }
    }

    private MemoryPlan(Program program, Layout layout) {
        values = program.values();
        roots = Roots.of(program, layout.parts());
        place(lives(program, layout));
    }

    /** The plan of a program whose steps run sequentially. */
    public static MemoryPlan of(Program program) {
        return new MemoryPlan(program, Layout.STEP_BY_STEP);
    }

    /**
     * The plan of a program on a device that lays its values out in this way.
     */
    public static MemoryPlan of(Program program, Layout layout) {
        return new MemoryPlan(program, layout);
    }

    private List<Life> lives(Program program, Layout layout) {
        int[] first = new int[values.size()];
        int[] last = new int[values.size()];
        Arrays.fill(first, Integer.MAX_VALUE);
        Arrays.fill(last, -1);
        List<Step> steps = program.steps();
        IdentityHashMap<Step, Integer> numbers = new IdentityHashMap<>();
        int[] begin = new int[steps.size()];
        int[] end = new int[steps.size()];
        for (int k = 0; k < steps.size(); k++) {
            numbers.put(steps.get(k), k);
            begin[k] = k;
            end[k] = k;
        }
        for (List<Step> group : layout.together()) {
            int from = Objects.requireNonNull(numbers.get(group.getFirst()));
            int to = Objects.requireNonNull(numbers.get(group.getLast()));
            Arrays.fill(begin, from, to + 1, from);
            Arrays.fill(end, from, to + 1, to);
        }
        for (int k = 0; k < steps.size(); k++) {
            Set<Value> spared = layout.spared().getOrDefault(steps.get(k), Set.of());
            for (Value v : steps.get(k).operands()) {
                int root = roots.id(v);
                if (spared.contains(values.get(root))) {
                    continue;
                }
                first[root] = Math.min(first[root], begin[k]);
                last[root] = Math.max(last[root], end[k]);
            }
        }
        for (Value v : program.inputs().values()) {
            first[roots.id(v)] = -1;
            last[roots.id(v)] = Integer.MAX_VALUE;
        }
        for (Value v : program.outputs().values()) {
            last[roots.id(v)] = Integer.MAX_VALUE;
        }
        List<Life> lives = new ArrayList<>();
        for (Value v : values) {
            if (roots.id(v) == v.id() && v.role().isInArena() && last[v.id()] >= 0) {
                Long bytes = layout.bytes().get(v);
                lives.add(new Life(v.id(), bytes == null ? bytes(v) : aligned(bytes), first[v.id()], last[v.id()]));
            }
        }
        for (Form form : layout.forms()) {
            int number = values.size() + forms.size();
            forms.put(form, number);
            int until = end[Objects.requireNonNull(numbers.get(form.last()))];
            lives.add(new Life(number, aligned(form.bytes()), first[roots.id(form.of())], until));
        }
        for (Workspace workspace : layout.workspaces()) {
            int number = values.size() + forms.size() + workspaces.size();
            workspaces.put(workspace, number);
            int from = Objects.requireNonNull(numbers.get(workspace.steps().getFirst()));
            int to = Objects.requireNonNull(numbers.get(workspace.steps().getLast()));
            lives.add(new Life(number, aligned(workspace.bytes()), begin[from], end[to]));
        }
        return lives;
    }

    /** Bytes of the arena that a value takes. */
    public static long bytes(Value value) {
        return aligned(value.type().byteSize());
    }

    private static long aligned(long bytes) {
        return Math.ceilDiv(Math.max(1, bytes), ALIGNMENT) * ALIGNMENT;
    }

    private void place(List<Life> lives) {
        lives.sort(Comparator.comparingLong(Life::bytes).reversed().thenComparingInt(Life::number));
        List<Placed> placed = new ArrayList<>();
        for (Life life : lives) {
            Placed p = new Placed(life, bestFit(life, placed));
            placed.add(p);
            offsets.put(life.number(), p.offset());
            arenaBytes = Math.max(arenaBytes, p.end());
        }
    }

    private static long bestFit(Life life, List<Placed> placed) {
        List<Placed> neighbours = placed.stream()
                .filter(p -> p.life().overlaps(life))
                .sorted(Comparator.comparingLong(Placed::offset))
                .toList();
        long best = -1;
        long bestGap = Long.MAX_VALUE;
        long end = 0;
        for (Placed p : neighbours) {
            long gap = p.offset() - end;
            if (gap >= life.bytes() && gap < bestGap) {
                best = end;
                bestGap = gap;
            }
            end = Math.max(end, p.end());
        }
        return best >= 0 ? best : end;
    }

    /** Size of the arena in bytes: the peak of live memory, with gaps. */
    public long arenaBytes() {
        return arenaBytes;
    }

    /** The value whose memory {@code value} uses: itself, or the origin of a view. */
    public Value root(Value value) {
        return roots.of(value);
    }

    /** Whether {@code value} is in the arena; values that no step touches are not. */
    public boolean isPlaced(Value value) {
        return offsets.containsKey(roots.id(value));
    }

    /**
     * Offset of {@code value} in the arena.
     *
     * @throws IllegalStateException when it is not in the arena
     */
    public long offset(Value value) {
        Long offset = offsets.get(roots.id(value));
        if (offset == null) {
            throw new IllegalStateException(value + " is not in the arena");
        }
        return offset;
    }

    /** Offset of a form of the layout in the arena. */
    public long offset(Form form) {
        return Objects.requireNonNull(offsets.get(forms.get(form)), form.name());
    }

    /** Offset of a workspace of the layout in the arena. */
    public long offset(Workspace workspace) {
        return Objects.requireNonNull(offsets.get(workspaces.get(workspace)));
    }

    /** Bytes of the program's persistent values with one role. */
    public static long bytes(Program program, ValueRole role) {
        return program.values().stream()
                .filter(v -> v.role() == role)
                .mapToLong(v -> v.type().byteSize())
                .sum();
    }
}
