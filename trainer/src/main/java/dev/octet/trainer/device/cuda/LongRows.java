package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Results of products whose rows lie further apart than their columns need, and the gradients of such results: those of a head whose vocabulary is no multiple of 16 bytes, which would
 * be copied to such rows and back for each product. All kernels that touch them take them so ({@link CudaKernel#rowPitch}).
 */
final class LongRows {
    /** All rows lie one behind the other. */
    static final LongRows NONE = new LongRows(Map.of());

    private final Map<Value, Long> pitches;

    private LongRows(Map<Value, Long> pitches) {
        this.pitches = pitches;
    }

    /** What a value is to a step. */
    private enum Role {
        INPUT,
        OUTPUT,
        UPSTREAM,
        GRADIENT
    }

    /** A value as an operand of a step. */
    private record Use(Step step, Role role, int at, Value value) {
        boolean is(Role as) {
            return role == as;
        }

        boolean takesLongRows() {
            return LongRows.<Boolean>of(step, kernel -> kernel.takesLongRows(step.op(), at))
                    && !step.accumulated().contains(at);
        }

        boolean takesLongGradient() {
            return at == 0 && LongRows.<Boolean>of(step, kernel -> kernel.takesLongGradient(step.op()));
        }
    }

    private static <T> T of(Step step, Function<CudaKernel<Op>, T> question) {
        return question.apply(Ops.of(step.op()).cuda());
    }

    /**
     * Those of a program.
     *
     * @param roots by which views are their origins
     */
    static LongRows of(Program program, MemoryPlan roots, CudaStream cuda) {
        Map<Value, List<Use>> uses = new HashMap<>();
        for (Step s : program.steps()) {
            if (!s.isView()) {
                use(s, Role.INPUT, s.inputs(), roots, uses);
                use(s, Role.OUTPUT, s.outputs(), roots, uses);
                use(s, Role.UPSTREAM, s.upstream(), roots, uses);
                use(s, Role.GRADIENT, s.gradients(), roots, uses);
            }
        }
        Set<Value> outputs =
                program.outputs().values().stream().map(roots::root).collect(Collectors.toSet());
        Map<Value, Long> pitches = new HashMap<>();
        uses.forEach((value, all) -> {
            if (value.role() == ValueRole.TEMPORARY && !outputs.contains(value)) {
                long pitch = pitch(value, all, cuda);
                if (pitch > 0) {
                    pitches.put(value, pitch);
                }
            }
        });
        return new LongRows(pitches);
    }

    private static void use(
            Step step, Role role, List<@Nullable Value> operands, MemoryPlan roots, Map<Value, List<Use>> uses) {
        for (int i = 0; i < operands.size(); i++) {
            Value v = operands.get(i);
            if (v != null) {
                uses.computeIfAbsent(roots.root(v), _ -> new ArrayList<>()).add(new Use(step, role, i, v));
            }
        }
    }

    /** Elements from row to row of a value that all of its uses agree on; 0 where rows lie one behind the other. */
    private static long pitch(Value value, List<Use> uses, CudaStream cuda) {
        long width = width(value);
        if (width == 0 || uses.stream().anyMatch(u -> width(u.value()) != width)) {
            return 0;
        }
        Predicate<Use> makes = u -> u.is(Role.OUTPUT) && u.at() == 0;
        Predicate<Use> takes = u -> u.is(Role.INPUT) && u.takesLongRows();
        if (one(uses, makes) && uses.stream().allMatch(makes.or(takes))) {
            Step maker = uses.stream().filter(makes).findFirst().orElseThrow().step();
            return LongRows.<Long>of(maker, kernel -> kernel.rowPitch(maker.op(), cuda));
        }
        makes = u -> u.is(Role.GRADIENT) && u.takesLongRows();
        takes = u -> u.is(Role.UPSTREAM) && u.takesLongGradient();
        if (one(uses, makes) && one(uses, takes) && uses.size() == 2) {
            Step reader = uses.stream().filter(takes).findFirst().orElseThrow().step();
            return LongRows.<Long>of(reader, kernel -> kernel.rowPitch(reader.op(), cuda));
        }
        return 0;
    }

    private static boolean one(List<Use> uses, Predicate<Use> kind) {
        return uses.stream().filter(kind).count() == 1;
    }

    private static long width(Value value) {
        return value.type().shape().rank() == 0 ? 0 : value.type().shape().dim(-1);
    }

    /** Elements from row to row of a value by itself; 0 where its rows lie one behind the other. */
    long pitch(Value root) {
        return pitches.getOrDefault(root, 0L);
    }

    /** The tensor of a value at an address. */
    CudaTensor tensor(Value value, Value root, long address) {
        Long pitch = pitches.get(root);
        return pitch == null ? new CudaTensor(value.type(), address) : new CudaTensor(value.type(), address, pitch);
    }

    /** Bytes of the values with long rows. */
    Map<Value, Long> bytes() {
        Map<Value, Long> bytes = new HashMap<>();
        pitches.forEach((v, pitch) -> bytes.put(v, v.type().byteSize() / width(v) * pitch));
        return bytes;
    }

    /** Reads a value's rows out of memory where they are long. */
    void read(Value value, Value root, long address, Gpu gpu, MemorySegment to) {
        try (Arena arena = Arena.ofConfined()) {
            long width = width(value);
            MemorySegment all = arena.allocate(value.type().byteSize() / width * pitch(root), 8);
            gpu.read(address, all);
            long row = value.type().byteSize() / (value.type().count() / width);
            long step = row / width * pitch(root);
            for (long i = 0; i < value.type().count() / width; i++) {
                MemorySegment.copy(all, i * step, to, i * row, row);
            }
        }
    }
}
