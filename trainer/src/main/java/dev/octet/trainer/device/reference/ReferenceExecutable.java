package dev.octet.trainer.device.reference;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepFrame;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A loaded program with a separate array for every value that is not a view. */
final class ReferenceExecutable implements Executable {
    private final Program program;
    private final MemoryPlan plan;
    private final ReferenceMemory memory;
    private final Map<Integer, double[]> own = new HashMap<>();
    private @Nullable StepObserver observer;

    ReferenceExecutable(Program program, ReferenceMemory memory) {
        this.program = program;
        this.memory = memory;
        plan = MemoryPlan.of(program); // knows the roots of views
        memory.admit(program);
        program.constants().forEach((v, t) -> ReferenceMemory.load(v.type(), t.bytes(), elements(v)));
    }

    private double[] elements(Value value) {
        Value root = plan.root(value);
        return root.role().isShared()
                ? memory.elements(root)
                : own.computeIfAbsent(root.id(), id -> ReferenceMemory.zeros(root));
    }

    @Override
    public Program program() {
        return program;
    }

    @Override
    public long bytes() {
        return own.values().stream().mapToLong(a -> 8L * a.length).sum();
    }

    @Override
    public void feed(Value input, MemorySegment bytes) {
        ReferenceMemory.load(input.type(), bytes, elements(input));
    }

    @Override
    public void run(Phase phase) {
        for (Step step : program.steps(phase)) {
            if (step.isView()) {
                continue;
            }
            long start = System.nanoTime();
            call(step);
            if (observer != null && !step.repeats()) {
                observer.after(step, System.nanoTime() - start, this);
            }
        }
    }

    private void call(Step step) {
        Op op = step.op();
        if (!step.backward()) {
            Ops.of(op).reference().forward(op, new StepFrame<>(step, this::elements));
            return;
        }
        // Reference kernels write into zeroed arrays and never accumulate: gradients are added here.
        IdentityHashMap<double[], double[]> parts = new IdentityHashMap<>();
        Ops.of(op).reference().backward(op, new StepFrame<>(step, v -> {
            double[] all = elements(v);
            return step.gradients().contains(v) ? parts.computeIfAbsent(all, a -> new double[a.length]) : all;
        }));
        for (int i = 0; i < step.gradients().size(); i++) {
            Value gradient = step.gradients().get(i);
            if (gradient != null) {
                finish(elements(gradient), parts, step.accumulated().contains(i));
            }
        }
    }

    private static void finish(double[] all, IdentityHashMap<double[], double[]> parts, boolean add) {
        double[] part = parts.get(all);
        if (part == null) {
            throw new IllegalStateException("a gradient without an array");
        }
        for (int k = 0; k < all.length; k++) {
            all[k] = add ? all[k] + part[k] : part[k];
        }
    }

    @Override
    public void read(Value value, MemorySegment bytes) {
        ReferenceMemory.store(value.type(), elements(value), bytes);
    }

    @Override
    public void observe(@Nullable StepObserver newObserver) {
        observer = newObserver;
    }

    @Override
    public void close() {}
}
