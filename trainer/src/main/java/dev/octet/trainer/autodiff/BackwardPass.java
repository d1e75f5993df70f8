package dev.octet.trainer.autodiff;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Writes the backward steps: those of the forward steps in reverse, wherever a trained parameter leads to an output that has a gradient.
 *
 * <p>The gradient of a value that several operators read is the sum of what they contribute. The first contribution is written; further
 * ones are added by the operator itself where it can ({@link Op#canAccumulate}), otherwise by a step of their own. Gradients of trained
 * parameters are sums over micro-batches, so there the first contribution is added, too.
 */
final class BackwardPass {
    private final ForwardPass forward;
    private final ProgramOptions options;
    private final ProgramBuilder builder;
    private final PrecisionPolicy policy;
    private final List<Step> tape;
    /** Forward values that a trained parameter has an effect on. */
    private final Set<Value> dependent = new HashSet<>();
    /** What is trained. */
    private final Set<Value> trained = new HashSet<>();
    /** Gradients so far of forward values that are not trained themselves. */
    private final Map<Value, Value> gradients = new HashMap<>();
    /** Gradients that lie in memory the caller fills, or that stand for those of several values: not to be added to. */
    private final Set<Value> borrowed = new HashSet<>();

    BackwardPass(ForwardPass forward, ProgramOptions options, PrecisionPolicy policy, ProgramBuilder builder) {
        this.forward = forward;
        this.options = options;
        this.builder = builder;
        this.policy = policy;
        this.tape = builder.steps();
    }

    void emit() {
        seed();
        spread();
        Set<Value> reached = new HashSet<>();
        for (Step step : tape.reversed()) {
            if (!step.backward()) {
                differentiate(step, reached);
            }
        }
        if (reached.isEmpty() && !options.trained().isEmpty()) {
            throw new InvalidDataException(
                    "none of the " + options.trained().size() + " trained parameters has an effect on "
                            + (options.loss() == null ? "the outputs" : "the loss '" + options.loss() + "'"),
                    "first trained parameter '" + options.trained().iterator().next() + "'",
                    "train parameters that the loss depends on; `octet inspect --parameters` lists all");
        }
        policy.afterBackward(builder);
    }

    /** Gradients that come from outside: of the loss, of outputs. */
    private void seed() {
        if (options.loss() != null) {
            Value loss = forward.value(options.loss());
            if (loss.type().count() != 1 || !loss.type().dtype().isFloat()) {
                throw new InvalidOptionException(
                        "the loss '" + loss.name() + "' is " + loss.type() + ", not one number",
                        "value '" + loss.name() + "'",
                        "reduce it to its mean or sum");
            }
            // F32 whatever the loss is: a loss scale of 65536 is out of F16's range
            Value one = builder.state(Program.LOSS_GRADIENT, loss.type().as(DType.F32), 1);
            gradients.put(loss, one);
            borrowed.add(one);
        }
        for (String name : options.upstream()) {
            Value output = forward.value(name);
            Value up = builder.input(Program.UPSTREAM + name, output.type());
            if (gradients.putIfAbsent(output, up) != null) {
                throw new InvalidOptionException(
                        "the gradient of '" + name + "' is given twice",
                        "value '" + name + "'",
                        "ask for it as the loss or as an output, not as both");
            }
            borrowed.add(up);
        }
    }

    /** Finds what depends on trained parameters, from the inputs on. */
    private void spread() {
        for (String name : options.trained()) {
            if (!forward.uses(name)) {
                continue;
            }
            Value v = forward.value(name);
            if (!v.type().dtype().isFloat()) {
                throw new InvalidOptionException(
                        "'" + name + "' is " + v.type() + ", which has no gradient",
                        "value '" + name + "'",
                        "train values of a float type");
            }
            dependent.add(v);
            trained.add(v);
        }
        for (Step step : tape) {
            for (int i = 0; i < step.inputs().size(); i++) {
                Value v = step.inputs().get(i);
                if (v != null && dependent.contains(v) && step.op().isDifferentiable(i)) {
                    outputs(step).filter(o -> o.type().dtype().isFloat()).forEach(dependent::add);
                }
            }
        }
    }

    private static Stream<Value> outputs(Step step) {
        return step.outputs().subList(0, step.op().outputs().size()).stream()
                .filter(o -> o != null)
                .map(Objects::requireNonNull);
    }

    private void differentiate(Step step, Set<Value> reached) {
        Op op = step.op();
        List<@Nullable Value> upstream = new ArrayList<>();
        step.outputs().subList(0, op.outputs().size()).forEach(o -> upstream.add(o == null ? null : gradients.get(o)));
        if (upstream.stream().allMatch(u -> u == null)) {
            return;
        }
        List<Integer> wanted = new ArrayList<>();
        for (int i = 0; i < step.inputs().size(); i++) {
            Value v = step.inputs().get(i);
            if (v != null && dependent.contains(v) && op.isDifferentiable(i)) {
                wanted.add(i);
                if (trained.contains(v)) {
                    reached.add(v);
                }
            }
        }
        if (!wanted.isEmpty()) {
            new Contribution(step, upstream, wanted).emit();
        }
    }

    /** What one forward step gives to the gradients of its inputs. */
    private final class Contribution {
        private final Step step;
        private final List<@Nullable Value> upstream;
        private final List<@Nullable Value> targets = new ArrayList<>();
        private final Set<Integer> added = new HashSet<>();
        /** Parts that a step of their own adds: the input's value, and where the part lies. */
        private final List<Map.Entry<Value, Value>> parts = new ArrayList<>();

        private final Set<Value> written = new HashSet<>();

        Contribution(Step step, List<@Nullable Value> upstream, List<Integer> wanted) {
            this.step = step;
            this.upstream = upstream;
            for (int i = 0; i < step.inputs().size(); i++) {
                Value v = step.inputs().get(i);
                if (v == null || !wanted.contains(i)) {
                    targets.add(null);
                } else if (step.op().passesGradient(i)) {
                    pass(v, requireNonNull(upstream.getFirst()));
                    targets.add(null);
                } else {
                    targets.add(target(i, v));
                }
            }
        }

        /** The upstream gradient is what {@code v} gets: it stands for v's gradient, or is added to it; from now on nobody may add to it. */
        private void pass(Value v, Value up) {
            borrowed.add(up);
            if (trained.contains(v) || gradients.containsKey(v)) {
                parts.add(Map.entry(v, up));
            } else {
                gradients.put(v, up);
            }
        }

        /** Where the gradient of input {@code i} goes. */
        private Value target(int i, Value v) {
            boolean isParameter = trained.contains(v);
            Value so = isParameter ? sum(v) : gradients.get(v);
            // The same value as two inputs: the order in which the operator writes is its own affair.
            boolean alone = written.add(v);
            if (so == null) {
                Value first = part(v);
                gradients.put(v, first);
                if (step.isView() && borrowed.contains(upstream.getFirst())) {
                    borrowed.add(first);
                }
                return first;
            }
            if (alone && !step.isView() && !borrowed.contains(so) && step.op().canAccumulate(i)) {
                added.add(i);
                return so;
            }
            Value part = part(v);
            parts.add(Map.entry(v, part));
            return part;
        }

        private Value part(Value v) {
            return builder.temporary("d:" + v.name(), v.type());
        }

        void emit() {
            Op op = step.op();
            List<@Nullable Value> inputs =
                    kept(step.inputs(), i -> op.backwardReadsInput(i, k -> targets.get(k) != null));
            List<@Nullable Value> outputs =
                    kept(step.outputs(), j -> j >= op.outputs().size() || op.backwardReadsOutput(j));
            if (targets.stream().anyMatch(t -> t != null)) {
                builder.add(new Step(Phase.BACKWARD, step.node(), op, true, inputs, outputs, upstream, targets, added));
            }
            for (Map.Entry<Value, Value> p : parts) {
                add(p.getKey(), p.getValue());
            }
        }

        private static List<@Nullable Value> kept(List<@Nullable Value> values, IntPredicate read) {
            List<@Nullable Value> kept = new ArrayList<>();
            for (int i = 0; i < values.size(); i++) {
                kept.add(read.test(i) ? values.get(i) : null);
            }
            return kept;
        }

        private void add(Value v, Value part) {
            boolean isParameter = trained.contains(v);
            Value so = isParameter ? sum(v) : requireNonNull(gradients.get(v));
            Value to = so;
            if (borrowed.contains(so)) {
                to = part(v);
                gradients.put(v, to);
            }
            builder.step(
                    Phase.BACKWARD,
                    step.node(),
                    new Accumulate(so.type(), part.type()),
                    List.of(so, part),
                    List.of(to));
        }
    }

    private Value sum(Value parameter) {
        return builder.gradient(parameter.name(), parameter.type());
    }
}
