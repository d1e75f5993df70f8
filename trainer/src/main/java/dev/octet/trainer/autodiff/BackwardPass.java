package dev.octet.trainer.autodiff;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.fp8.AccumulateCodes;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForm;
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
 * Emits the backward steps: walks the forward steps in reverse and differentiates each one that lies between a trained parameter and an
 * output with a gradient.
 *
 * <p>When several operators read a value, its gradient is the sum of their contributions. The first contribution is written; later ones are
 * accumulated by the operator itself if it can ({@link Op#canAccumulate}), otherwise by a separate {@link Accumulate} step. Gradients of
 * trained parameters are sums over micro-batches, so their first contribution is accumulated, too.
 */
final class BackwardPass {
    private final ForwardPass forward;
    private final ProgramOptions options;
    private final ProgramBuilder builder;
    private final PrecisionPolicy policy;
    private final List<Step> tape;
    /** Forward values that depend on a trained parameter. */
    private final Set<Value> dependent = new HashSet<>();
    /** Trained parameters and inputs. */
    private final Set<Value> trained = new HashSet<>();
    /** Gradients so far of forward values, except the trained ones. */
    private final Map<Value, Value> gradients = new HashMap<>();
    /** Gradients that must not be accumulated into: the caller fills their memory, or several values share them. */
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

    /** Registers the gradients that come from outside: of the loss and of outputs. */
    private void seed() {
        if (options.loss() != null) {
            Value loss = forward.value(options.loss());
            if (loss.type().count() != 1 || !loss.type().dtype().isFloat()) {
                throw new InvalidOptionException(
                        "the loss '" + loss.name() + "' is " + loss.type() + ", not one number",
                        "value '" + loss.name() + "'",
                        "reduce it to its mean or sum");
            }
            // F32 even for an F16 loss: a loss scale of 65536 exceeds F16's range
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

    /** Marks, in forward order, all values that depend on trained parameters. */
    private void spread() {
        for (String name : options.trained()) {
            if (!forward.uses(name)) {
                continue;
            }
            Value v = forward.kept(name);
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

    /** Contribution of one forward step to the gradients of its inputs. */
    private final class Contribution {
        private final Step step;
        private final List<@Nullable Value> upstream;
        private final List<@Nullable Value> targets = new ArrayList<>();
        private final Set<Integer> added = new HashSet<>();
        /** Contributions that a separate step accumulates: the input's value, and the contribution. */
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

        /**
         * Passes the upstream gradient on to {@code v}, as its gradient or as a contribution; from now on nothing may accumulate into it.
         */
        private void pass(Value v, Value up) {
            borrowed.add(up);
            if (trained.contains(v) || gradients.containsKey(v)) {
                parts.add(Map.entry(v, up));
            } else {
                gradients.put(v, up);
            }
        }

        /** The value that receives the gradient of input {@code i}. */
        private Value target(int i, Value v) {
            boolean isParameter = trained.contains(v);
            Value so = isParameter ? sum(v) : gradients.get(v);
            // One value as two inputs: an operator may write its gradients in any order, so only the first may
            // accumulate in place.
            boolean alone = written.add(v);
            if (so == null) {
                Value first = part(i, v);
                gradients.put(v, first);
                if (step.isView() && borrowed.contains(upstream.getFirst())) {
                    borrowed.add(first);
                }
                return first;
            }
            boolean inPlace = alone && !isCoded(v) && !step.isView() && !borrowed.contains(so) && !readsNarrow(i, v);
            if (inPlace && step.op().canAccumulate(i)) {
                added.add(i);
                return so;
            }
            Value part = part(i, v);
            parts.add(Map.entry(v, part));
            return part;
        }

        private Value part(int i, Value v) {
            boolean isF32 = isParameter(v) && !readsNarrow(i, v);
            return builder.temporary("d:" + v.name(), isF32 ? v.type().as(DType.F32) : v.type());
        }

        /** Whether the step reads a weight in BF16 as it is kept: its contribution then is BF16, too, and only the sum F32. */
        private boolean readsNarrow(int i, Value v) {
            return isParameter(v)
                    && v.type().dtype() != DType.F32
                    && step.op().gradientType(i, v.type()).equals(v.type())
                    && forward.readsAsKept(v);
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
            if (isCoded(v)) {
                OperandType tensor = v.type().as(DType.F32);
                StateForm.PowerOfTwo form = (StateForm.PowerOfTwo) form(v);
                List<Value> kept = builder.keptGradient(v.name(), form, tensor);
                List<@Nullable Value> inputs = new ArrayList<>(kept);
                inputs.add(part);
                builder.step(
                        Phase.BACKWARD, step.node(), new AccumulateCodes(form, tensor, policy.low()), inputs, kept);
                return;
            }
            boolean isParameter = trained.contains(v);
            Value so = isParameter ? sum(v) : requireNonNull(gradients.get(v));
            Value to = so;
            if (borrowed.contains(so)) {
                to = builder.temporary("d:" + v.name(), so.type());
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

    private StateForm form(Value parameter) {
        return options.states().gradient(parameter.name(), parameter.type().shape());
    }

    /** Whether the gradient of a value is kept in FP8: each contribution is added to what it stands for, and cast again. */
    private boolean isCoded(Value v) {
        return isParameter(v) && form(v) instanceof StateForm.PowerOfTwo;
    }

    private Value sum(Value parameter) {
        OperandType type = parameter.type();
        return isParameter(parameter)
                ? builder.keptGradient(parameter.name(), form(parameter), type.as(DType.F32))
                        .getFirst()
                : builder.gradient(parameter.name(), type);
    }

    /** Whether it is a weight, in whatever form: its gradients are F32 until they are summed. */
    private boolean isParameter(Value v) {
        return v.role() == ValueRole.PARAMETER && trained.contains(v);
    }
}
