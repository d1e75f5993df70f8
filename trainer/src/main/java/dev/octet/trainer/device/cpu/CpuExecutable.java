package dev.octet.trainer.device.cpu;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepFrame;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** A program whose operands and kernels are all looked up: running a phase calls one kernel after the other. */
final class CpuExecutable implements Executable {
    /**
     * @param ahead values in files that the next step which uses any works with
     * @param done values in files that the next step does not use
     */
    private record Call(
            Step step,
            Op op,
            CpuKernel<Op> kernel,
            StepFrame<CpuTensor> frame,
            List<MemorySegment> ahead,
            List<MemorySegment> done) {
        void run(CpuContext cpu) {
            if (step.backward()) {
                kernel.backward(op, frame, cpu);
            } else {
                kernel.forward(op, frame, cpu);
            }
        }
    }

    /** Bytes from which on a constant is not copied. */
    private static final long IN_PLACE = 1 << 16;

    private final Program program;
    private final MemoryPlan plan;
    private final CpuMemory memory;
    private final CpuContext cpu;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment temporaries;
    private final Map<Integer, CpuTensor> tensors = new HashMap<>();
    private final Map<Integer, MemorySegment> hosted = new HashMap<>();
    private final Map<Phase, List<Call>> calls = new EnumMap<>(Phase.class);
    private @Nullable StepObserver observer;

    CpuExecutable(Program program, CpuMemory memory, CpuContext cpu) {
        this.program = program;
        this.memory = memory;
        this.cpu = cpu;
        plan = MemoryPlan.of(program);
        try {
            memory.admit(program);
            temporaries =
                    CpuMemory.zeros(arena, plan.arenaBytes(), program.steps().size() + " steps of a program");
            prepare();
        } catch (RuntimeException e) { // out of memory
            arena.close();
            throw e;
        }
    }

    private void prepare() {
        program.constants().forEach((v, t) -> tensors.put(v.id(), new CpuTensor(v.type(), constant(v, t.bytes()))));
        for (Phase phase : Phase.values()) {
            List<Step> steps =
                    program.steps(phase).stream().filter(s -> !s.isView()).toList();
            List<Set<Value>> paged = steps.stream().map(this::paged).toList();
            List<Call> list = new ArrayList<>();
            for (int i = 0; i < steps.size(); i++) {
                Step s = steps.get(i);
                list.add(new Call(
                        s,
                        s.op(),
                        Ops.of(s.op()).cpu(),
                        new StepFrame<>(s, this::tensor),
                        without(next(paged, i), paged.get(i)),
                        without(paged.get(i), i + 1 < steps.size() ? paged.get(i + 1) : Set.of())));
            }
            calls.put(phase, list);
        }
    }

    /** Values in files that a step works with. */
    private Set<Value> paged(Step step) {
        Set<Value> values = new LinkedHashSet<>();
        for (Value v : step.operands()) {
            Value root = plan.root(v);
            if (root.role().isShared() && memory.isPaged(root)) {
                values.add(root);
            }
        }
        return values;
    }

    /** What the next step works with that uses values in files; asked for once, by the one before it that does, or the first of the phase. */
    private static Set<Value> next(List<Set<Value>> paged, int at) {
        if (at > 0 && paged.get(at).isEmpty()) {
            return Set.of();
        }
        return paged.subList(at + 1, paged.size()).stream()
                .filter(s -> !s.isEmpty())
                .findFirst()
                .orElse(Set.of());
    }

    private List<MemorySegment> without(Set<Value> values, Set<Value> others) {
        return values.stream()
                .filter(v -> !others.contains(v))
                .map(memory::segment)
                .toList();
    }

    private CpuTensor tensor(Value value) {
        return tensors.computeIfAbsent(value.id(), id -> new CpuTensor(value.type(), segment(value)));
    }

    private MemorySegment segment(Value value) {
        Value root = plan.root(value);
        long bytes = value.type().byteSize();
        return switch (root.role()) {
            case PARAMETER, STORED, STATE, GRADIENT, PREPARED -> memory.segment(root);
            case CONSTANT -> constant(root);
            case HOSTED -> hosted(root);
            case INPUT, TEMPORARY ->
                // an input that no step reads has no memory in the arena
                plan.isPlaced(root)
                        ? temporaries.asSlice(plan.offset(root), bytes)
                        : CpuMemory.zeros(arena, bytes, "input '" + value.name() + "'");
        };
    }

    /** Of a value in the host's memory: the same memory, but not in the arena. */
    private MemorySegment hosted(Value value) {
        return hosted.computeIfAbsent(
                value.id(), _ -> CpuMemory.zeros(arena, value.type().byteSize(), "'" + value.name() + "'"));
    }

    /** Large constants stay where they are; small ones are copied, side by side. */
    private MemorySegment constant(Value value, MemorySegment elements) {
        if (elements.byteSize() >= IN_PLACE && CpuMemory.isUsable(value.type(), elements)) {
            return elements;
        }
        MemorySegment copy = CpuMemory.zeros(arena, elements.byteSize(), "constant '" + value.name() + "'");
        return copy.copyFrom(elements);
    }

    /** Elements of a constant, which must be known before its views are. */
    private MemorySegment constant(Value root) {
        CpuTensor t = tensors.get(root.id());
        if (t == null) {
            throw new IllegalStateException(root + " has no elements");
        }
        return t.bytes();
    }

    @Override
    public Program program() {
        return program;
    }

    @Override
    public long bytes() {
        return plan.arenaBytes() + MemoryPlan.bytes(program, ValueRole.CONSTANT);
    }

    @Override
    public void feed(Value input, MemorySegment bytes) {
        tensor(input).bytes().copyFrom(bytes);
    }

    @Override
    public void run(Phase phase) {
        memory.ready();
        PagedValues paged = memory.paged();
        for (Call call : calls.getOrDefault(phase, List.of())) {
            StepObserver watching = observer;
            if (paged != null) {
                call.ahead().forEach(paged::ahead);
            }
            if (watching == null || call.step().repeats()) {
                call.run(cpu);
            } else {
                long start = System.nanoTime();
                call.run(cpu);
                watching.after(call.step(), System.nanoTime() - start, this);
            }
            if (paged != null) {
                call.done().forEach(paged::done);
            }
        }
    }

    @Override
    public void read(Value value, MemorySegment bytes) {
        bytes.copyFrom(tensor(value).bytes());
    }

    @Override
    public void observe(@Nullable StepObserver newObserver) {
        observer = newObserver;
    }

    @Override
    public void close() {
        arena.close();
    }
}
