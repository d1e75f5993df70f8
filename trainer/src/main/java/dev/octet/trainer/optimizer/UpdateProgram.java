package dev.octet.trainer.optimizer;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.WindowUpdate;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.op.update.AdafactorStep;
import dev.octet.trainer.op.update.AdagradStep;
import dev.octet.trainer.op.update.AdamStep;
import dev.octet.trainer.op.update.CodedSquareSum;
import dev.octet.trainer.op.update.CodedStep;
import dev.octet.trainer.op.update.ElementStep;
import dev.octet.trainer.op.update.FiniteGradients;
import dev.octet.trainer.op.update.LibraryAdam;
import dev.octet.trainer.op.update.LionStep;
import dev.octet.trainer.op.update.SgdStep;
import dev.octet.trainer.op.update.SquareSum;
import dev.octet.trainer.op.update.TrustRatio;
import dev.octet.trainer.op.update.UpdateOp;
import dev.octet.trainer.op.update.UpdateRms;
import dev.octet.trainer.op.update.WeightAverage;
import dev.octet.trainer.optimizer.Optimizer.Variant;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateForms.Arithmetic;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * A program from gradients to new parameters. It is separate because it does not depend on batch shapes. It shares parameters and gradients
 * with the training programs through the device's memory, where values with the same name share storage.
 *
 * <p>Before {@code run(UPDATE)}, the caller writes the learning rate to {@link #learningRate} and, with loss scaling, 1 / scale to
 * {@link #unscale}. Afterwards {@link #norm} is the unscaled global gradient norm before clipping. If the norm or a loss is not finite,
 * {@link #nonFinite} is 1, and parameters, moments and {@link #step} are unchanged.
 *
 * @param program all its steps are {@link Phase#UPDATE}
 * @param learningRate F32, initially 0
 * @param unscale F32 factor of the gradients, initially 1
 * @param badLoss F32, 1 when a loss of the step was not finite ({@link Program#LOSS_NON_FINITE}); the caller sets it to 0 before each step
 * @param norm F32
 * @param factor F32, total factor of the gradients: {@code unscale} and clipping
 * @param nonFinite F32, 0 or 1
 * @param step F32, number of updates so far; part of a checkpoint
 * @param memory the optimizer's buffers, by parameter and torch's name ({@code exp_avg}); part of a checkpoint
 * @param squares Σ g² of each parameter's scaled gradient, F64; not finite if the gradient is not
 * @param shared parameters of which each rank has a part
 */
@SuppressWarnings("exports") // parts of parameters are given by sessions alone
public record UpdateProgram(
        Program program,
        Value learningRate,
        Value unscale,
        Value badLoss,
        Value norm,
        Value factor,
        Value nonFinite,
        Value step,
        Map<String, Map<String, Value>> memory,
        Map<String, Value> squares,
        Map<String, SharedTensor> shared) {
    /** Name of the state that counts the updates so far, F32. */
    public static final String STEP = "optimizer_step";

    /** Name of the state with the first beta of the next step, F32, where a schedule moves it. */
    private static final String BETA1 = "beta1";

    /** Name of the states with learning rates that are multiples of the run's, F32; the factor follows. */
    private static final String OWN_RATE = "learning_rate:";

    private static final OperandType NUMBER = new OperandType(DType.F32, Shape.SCALAR);

    public UpdateProgram {
        memory = Collections.unmodifiableMap(new LinkedHashMap<>(memory));
        squares = Collections.unmodifiableMap(new LinkedHashMap<>(squares));
        shared = Map.copyOf(shared);
    }

    /**
     * The update of all parameters that have gradients in {@code training}.
     *
     * @param training a program with a backward half; programs for other shapes have the same parameters and gradients
     * @param noDecay parameters that match one of these patterns (anywhere in the name) get no weight decay
     * @param maxNorm largest allowed global gradient norm; infinity for no clipping
     * @param averages of the weights, kept besides them
     */
    public static UpdateProgram of(
            Program training,
            Optimizer optimizer,
            List<Pattern> noDecay,
            double maxNorm,
            Collection<WeightAveraging> averages) {
        return of(training, optimizer, noDecay, maxNorm, averages, StateForms.F32);
    }

    /**
     * The same with tensors kept in other forms than F32.
     *
     * @param states those that {@code training} was made with
     */
    public static UpdateProgram of(
            Program training,
            Optimizer optimizer,
            List<Pattern> noDecay,
            double maxNorm,
            Collection<WeightAveraging> averages,
            StateForms states) {
        return of(training, optimizer, OwnRate.NONE, noDecay, maxNorm, averages, states);
    }

    /**
     * The same with parameters that have a learning rate of their own.
     *
     * @param own those parameters
     */
    public static UpdateProgram of(
            Program training,
            Optimizer optimizer,
            OwnRate own,
            List<Pattern> noDecay,
            double maxNorm,
            Collection<WeightAveraging> averages,
            StateForms states) {
        return of(training, optimizer, own, noDecay, maxNorm, averages, states, Map.of());
    }

    /**
     * The same of a rank that has parts of parameters.
     *
     * @param shared those parameters
     */
    public static UpdateProgram of(
            Program training,
            Optimizer optimizer,
            OwnRate own,
            List<Pattern> noDecay,
            double maxNorm,
            Collection<WeightAveraging> averages,
            StateForms states,
            Map<String, SharedTensor> shared) {
        Predicate<String> decays = name -> !own.factors().containsKey(name)
                && noDecay.stream().noneMatch(p -> p.matcher(name).find());
        return new Writer(
                        optimizer,
                        own.factors(),
                        decays,
                        List.copyOf(averages),
                        states,
                        Embeddings.of(training),
                        shared)
                .write(training, maxNorm);
    }

    /** This update by another program, which has the values of all components but {@link #memory}; of that it may have a part. */
    public UpdateProgram with(Program other) {
        return new UpdateProgram(
                other, learningRate, unscale, badLoss, norm, factor, nonFinite, step, memory, squares, shared);
    }

    /** Where the caller writes the learning rates of {@link OwnRate}'s parameters before each step, F32, by their factor. */
    public Map<Double, Value> ownRates() {
        Map<Double, Value> rates = new LinkedHashMap<>();
        for (Value v : program.values()) {
            if (v.role() == ValueRole.STATE && v.name().startsWith(OWN_RATE)) {
                rates.put(Double.valueOf(v.name().substring(OWN_RATE.length())), v);
            }
        }
        return rates;
    }

    /** Where the caller writes the first beta before each step, F32; empty where it is fixed. */
    public Optional<Value> beta1() {
        return program.values().stream()
                .filter(v -> v.role() == ValueRole.STATE && v.name().equals(BETA1))
                .findFirst();
    }

    /**
     * Name of a state in a device's memory.
     *
     * @param what torch's name of a buffer ({@code exp_avg})
     */
    public static String stateName(String what, String parameter) {
        return what + ":" + parameter;
    }

    private static final class Writer {
        private final Optimizer optimizer;
        private final Predicate<String> decays;
        private final List<WeightAveraging> averages;
        private final StateForms states;
        private final Set<String> lookedUp;
        private final Map<String, SharedTensor> shared;
        private final ProgramBuilder builder = new ProgramBuilder();
        private final Value learningRate = builder.state("learning_rate", NUMBER, 0);
        private final Value unscale = builder.state("unscale", NUMBER, 1);
        private final Value badLoss = builder.state(Program.LOSS_NON_FINITE, NUMBER, 0);
        private final Value norm = builder.state("gradient_norm", NUMBER, 0);
        private final Value factor = builder.state("gradient_factor", NUMBER, 1);
        private final Value nonFinite = builder.state("non_finite", NUMBER, 0);
        private final Value step = builder.state(STEP, NUMBER, 0);
        /** What a step of a tensor whose learning rate is measured reads, by parameter. */
        private final Map<String, Value> measured = new HashMap<>();

        private final Map<Double, Value> multiples = new HashMap<>();
        private final Map<String, Double> apart;

        Writer(
                Optimizer optimizer,
                Map<String, Double> apart,
                Predicate<String> decays,
                List<WeightAveraging> averages,
                StateForms states,
                Set<String> lookedUp,
                Map<String, SharedTensor> shared) {
            this.lookedUp = lookedUp;
            this.shared = shared;
            this.apart = apart;
            this.averages = averages;
            this.states = states;
            this.optimizer = optimizer;
            this.decays = decays;
        }

        UpdateProgram write(Program training, double maxNorm) {
            Map<String, Value> gradients = training.gradients();
            Map<String, Value> squares = new LinkedHashMap<>();
            Map<String, Map<String, Value>> memory = new LinkedHashMap<>();
            List<Value> checked = new ArrayList<>(List.of(unscale, step, badLoss));
            gradients.forEach((name, g) -> {
                Value square = builder.state(stateName("square_sum", name), SquareSum.RESULT);
                StateForm form = states.gradient(name, g.type().shape());
                if (form.isFloats()) {
                    Value gradient = builder.gradient(name, g.type());
                    builder.step(Phase.UPDATE, name, new SquareSum(g.type()), List.of(gradient), List.of(square));
                } else {
                    OperandType tensor = g.type().as(DType.F32);
                    builder.step(
                            Phase.UPDATE,
                            name,
                            new CodedSquareSum(tensor, form),
                            List.copyOf(builder.keptGradient(name, form, tensor)),
                            List.of(square));
                }
                squares.put(name, square);
                checked.add(square);
            });
            builder.step(
                    Phase.UPDATE,
                    "all gradients",
                    new FiniteGradients(squares.size(), maxNorm),
                    checked,
                    List.of(norm, factor, nonFinite, step));
            moveWindows(training);
            gradients.forEach((name, g) -> measure(name, g.type()));
            gradients.forEach((name, g) -> memory.put(name, update(name, g.type())));
            averages.forEach(a -> gradients.forEach((name, g) -> average(a, name, g.type())));
            return new UpdateProgram(
                    builder.build(),
                    learningRate,
                    unscale,
                    badLoss,
                    norm,
                    factor,
                    nonFinite,
                    step,
                    memory,
                    squares,
                    shared);
        }

        /** MS-AMP's windows of amaxes move with each step that counts. */
        private void moveWindows(Program training) {
            Map<String, WindowUpdate.Slot> slots = new LinkedHashMap<>();
            List<Value> states = new ArrayList<>();
            for (Step s : training.steps()) {
                WindowUpdate.Windowed windowed = WindowUpdate.of(s.op());
                Value quantScale = windowed == null ? null : s.inputs().get(windowed.quantScale());
                Value window = windowed == null ? null : s.inputs().get(windowed.window());
                if (windowed != null
                        && quantScale != null
                        && window != null
                        && slots.putIfAbsent(window.name(), windowed.slot()) == null) {
                    states.add(builder.state(quantScale.name(), quantScale.type(), 1));
                    states.add(builder.state(window.name(), window.type(), 0));
                }
            }
            if (!slots.isEmpty()) {
                List<Value> inputs = new ArrayList<>(List.of(nonFinite));
                inputs.addAll(states);
                WindowUpdate op = new WindowUpdate(List.copyOf(slots.values()));
                builder.step(Phase.UPDATE, "fp8", op, List.copyOf(inputs), states);
            }
        }

        /** Must follow the step. */
        private void average(WeightAveraging a, String name, OperandType type) {
            OperandType kept = type.as(DType.F32);
            Value average = builder.state(a.kind().state(name), kept, 0);
            StateForm form = states.parameter(name, type.shape());
            Value p = form.isF32()
                    ? builder.parameter(name, type)
                    : decoded("averaged:" + name, form, kept, builder.kept(name, form, kept));
            WeightAverage op = new WeightAverage(p.type(), kept, a.decay(), a.start(), a.every());
            builder.step(Phase.UPDATE, name, op, List.of(average, p, step, nonFinite), List.of(average));
        }

        /** A tensor in F32, as long as the next steps read it. */
        private Value decoded(String name, StateForm form, OperandType tensor, List<Value> parts) {
            Value made = builder.temporary(name, tensor);
            DecodeState op = new DecodeState(form, tensor, DType.F32);
            builder.step(Phase.UPDATE, name, op, List.copyOf(parts), List.of(made));
            return made;
        }

        /** The whole of a parameter, of which this rank may have a part. */
        private SharedTensor whole(String name, OperandType type) {
            SharedTensor parts = shared.get(name);
            return parts == null ? SharedTensor.alone(type.shape()) : parts;
        }

        /** The optimizer of a parameter, with its weight decay. */
        private Optimizer own(String name, OperandType type) {
            // scales are no matrices to Muon, whatever their shape
            Optimizer own = optimizer.of(name, type, lookedUp.contains(name) || apart.containsKey(name));
            return decays.test(name) ? own : own.withWeightDecay(0);
        }

        /** Where the learning rate of a parameter lies. */
        private Value rate(String name) {
            Double multiple = apart.get(name);
            return multiple == null ? learningRate : builder.state(OWN_RATE + multiple, NUMBER, 0);
        }

        /** What the learning rate of a tensor follows from: StableAdamW's from its second moment before the step, LAMB's from its update. */
        private void measure(String name, OperandType type) {
            OperandType moment = type.as(DType.F32);
            switch (own(name, type)) {
                case Optimizer.Adam a
                when a.variant() == Variant.STABLE_ADAMW -> {
                    Value second = moment(a.memory().getLast(), name, moment);
                    Value g = gradient(name, type);
                    builder.step(
                            Phase.UPDATE,
                            name,
                            new UpdateRms(g.type(), moment, a.beta2(), a.eps(), whole(name, type)),
                            List.of(g, second, step, factor),
                            List.of(rms(name)));
                }
                case Optimizer.Lamb l -> {
                    StateForm form = states.parameter(name, type.shape());
                    Value p = form.isF32()
                            ? builder.parameter(name, type)
                            : decoded("read:" + name, form, moment, builder.kept(name, form, moment));
                    Value g = gradient(name, p.type());
                    builder.step(
                            Phase.UPDATE,
                            name,
                            new TrustRatio(
                                    p.type(),
                                    moment,
                                    l.beta1(),
                                    l.beta2(),
                                    l.eps(),
                                    l.weightDecay(),
                                    l.rule(),
                                    whole(name, type)),
                            List.of(
                                    p,
                                    g,
                                    moment(l.memory().getFirst(), name, moment),
                                    moment(l.memory().getLast(), name, moment),
                                    step,
                                    factor),
                            List.of(measured.computeIfAbsent(
                                    name, n -> builder.temporary("trust_ratio:" + n, NUMBER))));
                }
                case Optimizer.Scaled s ->
                    measured.put(
                            name,
                            multiples.computeIfAbsent(
                                    s.multiple(),
                                    m -> builder.constant(
                                            "rate",
                                            Tensor.ofFloats(Arena.ofAuto(), "rate", Shape.SCALAR, m.floatValue()))));
                case Optimizer.Adam _,
                        Optimizer.Cycled _,
                        Optimizer.Sgd _,
                        Optimizer.Lion _,
                        Optimizer.Adagrad _,
                        Optimizer.Adafactor _,
                        Optimizer.Muon _ -> {}
            }
        }

        /** How a buffer of the optimizer is kept; blocks are those of the whole tensor. */
        private StateForm memory(String what, String name, OperandType tensor) {
            SharedTensor of = shared.get(name);
            if (of == null) {
                return states.memory(what, tensor.shape());
            }
            StateForm form = states.memory(what, of.whole());
            return form instanceof StateForm.Blocked(BlockCodes codes)
                    ? new StateForm.BlockedPart(codes, of.whole().elementCount(), of.run(), of.stride(), of.first())
                    : form;
        }

        /** A buffer of the optimizer, read as F32. */
        private Value moment(String what, String name, OperandType type) {
            StateForm form = memory(what, name, type);
            String state = stateName(what, name);
            return form.isF32()
                    ? builder.state(state, type, 0)
                    : decoded("read:" + state, form, type, builder.keptState(state, form, type));
        }

        /** The gradient of a parameter, decoded where it is kept in few bits. */
        private Value gradient(String name, OperandType type) {
            StateForm form = states.gradient(name, type.shape());
            OperandType decoded = type.as(DType.F32);
            return form.isFloats()
                    ? builder.gradient(name, type)
                    : decoded("read:d:" + name, form, decoded, builder.keptGradient(name, form, decoded));
        }

        private static AdamStep.Variant variant(Optimizer.Adam adam) {
            return switch (adam.variant()) {
                case ADAM -> AdamStep.Variant.ADAM;
                case ADAMW -> AdamStep.Variant.ADAMW;
                case STABLE_ADAMW -> AdamStep.Variant.STABLE_ADAMW;
            };
        }

        private Value rms(String name) {
            Value rms = builder.state(stateName("update_rms", name), NUMBER, 0);
            measured.put(name, rms);
            return rms;
        }

        /** Whether a parameter, its gradient and its buffers are kept as they are computed. */
        private boolean isPlain(String name, OperandType type, Optimizer own) {
            return states.arithmetic() == Arithmetic.TORCH
                    && states.parameter(name, type.shape()).isF32()
                    && states.gradient(name, type.shape()).isFloats()
                    && own.memory(type).entrySet().stream()
                            .allMatch(
                                    m -> memory(m.getKey(), name, m.getValue()).isF32());
        }

        /** The step of a parameter in any form. */
        private Map<String, Value> coded(String name, OperandType tensor, Optimizer.Elementwise own) {
            StateForm p = states.parameter(name, tensor.shape());
            StateForm g = states.gradient(name, tensor.shape());
            List<Value> changed = new ArrayList<>(builder.kept(name, p, tensor));
            List<Value> inputs = new ArrayList<>(changed);
            inputs.addAll(builder.keptGradient(name, g, tensor));
            Map<String, Value> memory = new LinkedHashMap<>();
            List<StateForm> buffers = new ArrayList<>();
            for (String what : own.memory()) {
                StateForm form = memory(what, name, tensor);
                List<Value> parts = builder.keptState(stateName(what, name), form, tensor);
                memory.put(what, parts.getFirst());
                buffers.add(form);
                inputs.addAll(parts);
                changed.addAll(parts);
            }
            inputs.addAll(List.of(rate(name), step, factor, nonFinite));
            ElementStep rule = rule(own, tensor, tensor);
            if (rule.measuresRate()) {
                inputs.add(Objects.requireNonNull(measured.get(name)));
            }
            CodedStep op =
                    new CodedStep(rule, p, g, buffers, CounterRandom.key(0, name.hashCode()), whole(name, tensor));
            builder.step(Phase.UPDATE, name, op, List.copyOf(inputs), changed);
            return memory;
        }

        private ElementStep rule(Optimizer.Elementwise own, OperandType p, OperandType moment) {
            return switch (own) {
                case Optimizer.Adam a -> {
                    AdamStep adam = adam(a, p, moment, variant(a));
                    yield states.arithmetic() == Arithmetic.TORCH || adam.measuresRate()
                            ? adam
                            : new LibraryAdam(adam, states.arithmetic());
                }
                case Optimizer.Cycled c ->
                    adam(c.adam(), p, moment, variant(c.adam())).cycling();
                case Optimizer.Scaled s -> adam(s.adam(), p, moment, AdamStep.Variant.SCALED_ADAMW);
                case Optimizer.Lamb l ->
                    new AdamStep(
                            p, moment, l.beta1(), l.beta2(), l.eps(), l.weightDecay(), TrustRatio.variant(l.rule()));
                case Optimizer.Sgd s ->
                    new SgdStep(p, moment, s.momentum(), s.dampening(), s.weightDecay(), s.nesterov());
                case Optimizer.Adagrad a -> new AdagradStep(p, a.lrDecay(), a.eps(), a.weightDecay());
                case Optimizer.Lion l -> new LionStep(p, moment, l.beta1(), l.beta2(), l.weightDecay());
            };
        }

        private static AdamStep adam(Optimizer.Adam a, OperandType p, OperandType moment, AdamStep.Variant variant) {
            return new AdamStep(p, moment, a.beta1(), a.beta2(), a.eps(), a.weightDecay(), variant);
        }

        private Map<String, Value> update(String name, OperandType type) {
            Optimizer own = own(name, type);
            boolean plain = isPlain(name, type, own);
            boolean hasOperator = !(own instanceof Optimizer.Adagrad);
            if (own instanceof Optimizer.Elementwise e && !(plain && hasOperator)) {
                return coded(name, type.as(DType.F32), e);
            }
            if (!plain) {
                throw new InvalidOptionException(
                        own.title() + " needs its buffers, the parameter and its gradient as they are, but those of '"
                                + name + "' are kept in another form",
                        "optimizer: {type: " + own.title().toLowerCase(Locale.ROOT) + ", states: ...}",
                        "leave states out, or choose an optimizer that updates each element by itself: sgd, adam,"
                                + " adamw, stableadamw, lion, lamb");
            }
            Map<String, Value> memory = new LinkedHashMap<>();
            own.memory(type).forEach((what, kept) -> memory.put(what, builder.state(stateName(what, name), kept, 0)));
            switch (own) {
                case Optimizer.Elementwise e -> elements(e, name, type, memory);
                case Optimizer.Adafactor a -> {
                    AdafactorStep op = new AdafactorStep(type, a.rule(), a.weightDecay(), whole(name, type));
                    builder.step(Phase.UPDATE, name, op, scalarsFirst(name, type, memory), changed(name, type, memory));
                }
                case Optimizer.Muon m ->
                    new MuonSteps(builder, m.rule(), name, whole(name, type))
                            .write(
                                    builder.parameter(name, type),
                                    builder.gradient(name, type),
                                    memory.values().iterator().next(),
                                    new MuonSteps.Scalars(learningRate, factor, nonFinite),
                                    m.weightDecay());
            }
            return memory;
        }

        private void elements(Optimizer.Elementwise own, String name, OperandType type, Map<String, Value> memory) {
            OperandType moment = type.as(DType.F32);
            Op op = (UpdateOp) rule(own, type, moment);
            List<Value> inputs = scalarsFirst(name, type, memory);
            if (op instanceof AdamStep adam) {
                inputs = new ArrayList<>(List.of(builder.parameter(name, type), builder.gradient(name, type)));
                inputs.addAll(memory.values());
                inputs.addAll(List.of(rate(name), step, factor, nonFinite));
                if (adam.measuresRate()) {
                    inputs.add(Objects.requireNonNull(measured.get(name)));
                }
                if (adam.cycles()) {
                    inputs.add(builder.state(BETA1, NUMBER, (float) adam.beta1()));
                }
            }
            builder.step(Phase.UPDATE, name, op, List.copyOf(inputs), changed(name, type, memory));
        }

        private List<Value> scalarsFirst(String name, OperandType type, Map<String, Value> memory) {
            List<Value> inputs = new ArrayList<>(List.of(
                    builder.parameter(name, type), builder.gradient(name, type), rate(name), step, factor, nonFinite));
            inputs.addAll(memory.values());
            return List.copyOf(inputs);
        }

        private List<Value> changed(String name, OperandType type, Map<String, Value> memory) {
            List<Value> changed = new ArrayList<>(List.of(builder.parameter(name, type)));
            changed.addAll(memory.values());
            return changed;
        }
    }
}
