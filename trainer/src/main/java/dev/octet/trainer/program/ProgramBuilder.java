package dev.octet.trainer.program;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Collects values and steps into a {@link Program}. Persistent values are created once per name. */
public final class ProgramBuilder implements Emitter {
    private final List<Value> values = new ArrayList<>();
    private final List<Step> steps = new ArrayList<>();
    private final Map<String, Value> named = new HashMap<>();
    private final Map<String, Value> inputs = new LinkedHashMap<>();
    private final Map<String, Value> outputs = new LinkedHashMap<>();
    private final Map<String, Value> gradients = new LinkedHashMap<>();
    private final Map<Value, Tensor> constants = new LinkedHashMap<>();
    private final Map<Value, Tensor> stored = new LinkedHashMap<>();
    private final Map<Value, List<Float>> states = new LinkedHashMap<>();

    private Value make(String name, OperandType type, ValueRole role) {
        Value v = new Value(values.size(), name, type, role);
        values.add(v);
        return v;
    }

    /** The only value with this name: persistent values of all roles share one namespace, as they do in device memory. */
    private Value once(String name, OperandType type, ValueRole role) {
        Value v = named.get(name);
        if (v == null) {
            v = make(name, type, role);
            named.put(name, v);
        } else if (!v.type().equals(type) || v.role() != role) {
            throw new IllegalStateException(v.role() + " " + v + " is wanted as " + role + " " + type);
        }
        return v;
    }

    /** An input, fed under {@code name}. */
    public Value input(String name, OperandType type) {
        return inputs.computeIfAbsent(name, n -> make(n, type, ValueRole.INPUT));
    }

    /** The weight named {@code name}. */
    public Value parameter(String name, OperandType type) {
        return once(name, type, ValueRole.PARAMETER);
    }

    /** The values that stand for the weight named {@code name} when it is kept in a form: its codes, then what it takes to read them. */
    public List<Value> kept(String name, StateForm form, OperandType tensor) {
        List<Value> all = new ArrayList<>();
        for (StateForm.Part part : form.parts(tensor)) {
            all.add(all.isEmpty() ? parameter(name, part.type()) : partOf(name, form, part));
        }
        return all;
    }

    /** The values that stand for a gradient. */
    public List<Value> keptGradient(String parameter, StateForm form, OperandType tensor) {
        List<Value> all = new ArrayList<>();
        for (StateForm.Part part : form.parts(tensor)) {
            Value codes = all.isEmpty() ? gradient(parameter, part.type()) : null;
            all.add(codes != null ? codes : partOf(all.getFirst().name(), form, part));
        }
        return all;
    }

    /** The values that stand for a state; in a form without scales it begins with zeros. */
    public List<Value> keptState(String name, StateForm form, OperandType tensor) {
        List<Value> all = new ArrayList<>();
        for (StateForm.Part part : form.parts(tensor)) {
            all.add(all.isEmpty() ? state(name, part.type()) : partOf(name, form, part));
        }
        return all;
    }

    private Value partOf(String name, StateForm form, StateForm.Part part) {
        float initial = form.initial(part);
        return initial == 0
                ? state(name + part.suffix(), part.type())
                : state(name + part.suffix(), part.type(), initial);
    }

    /** Bytes of a frozen weight, in place. */
    public Value stored(String name, Tensor elements) {
        Value v = once(name, new OperandType(elements.dtype(), elements.shape()), ValueRole.STORED);
        stored.putIfAbsent(v, elements);
        return v;
    }

    /** A constant with its elements, which are read when the program is loaded. */
    public Value constant(String name, Tensor elements) {
        Value v = make(name, new OperandType(elements.dtype(), elements.shape()), ValueRole.CONSTANT);
        constants.put(v, elements);
        return v;
    }

    /** The gradient of the parameter (or input) named {@code parameter}. */
    public Value gradient(String parameter, OperandType type) {
        return gradients.computeIfAbsent(parameter, p -> once("d:" + p, type, ValueRole.GRADIENT));
    }

    @Override
    public Value temporary(String name, OperandType type) {
        return make(name, type, ValueRole.TEMPORARY);
    }

    @Override
    public Value prepared(String name, OperandType type) {
        return once(name, type, ValueRole.PREPARED);
    }

    @Override
    public Value state(String name, OperandType type, float... initial) {
        Value v = once(name, type, ValueRole.STATE);
        if (initial.length > 0) {
            List<Float> elements = new ArrayList<>();
            for (float f : initial) {
                elements.add(f);
            }
            states.putIfAbsent(v, List.copyOf(elements));
        }
        return v;
    }

    /** Makes {@code value} readable under {@code name} after FORWARD. */
    public void output(String name, Value value) {
        outputs.put(name, value);
    }

    @Override
    public void step(Phase phase, String node, Op op, List<@Nullable Value> stepInputs, List<Value> stepOutputs) {
        List<@Nullable Value> all = new ArrayList<>(stepOutputs);
        List<OperandType> saved = op.saved();
        for (int i = 0; i < saved.size(); i++) {
            String name = "saved:" + node + ":" + i;
            all.add(phase == Phase.PREPARE ? prepared(name, saved.get(i)) : temporary(name, saved.get(i)));
        }
        add(new Step(phase, node, op, false, stepInputs, all, List.of(), List.of(), Set.of()));
    }

    /** Appends a complete step. */
    public void add(Step step) {
        steps.add(step);
    }

    /** Steps so far, in the order they were appended. */
    public List<Step> steps() {
        return List.copyOf(steps);
    }

    /** Builds the program, with steps sorted by phase. */
    public Program build() {
        List<Step> ordered = new ArrayList<>(steps);
        ordered.sort(Comparator.comparing(Step::phase)); // stable: keeps the order within a phase
        return new Program(values, ordered, inputs, outputs, gradients, constants, stored, states);
    }
}
