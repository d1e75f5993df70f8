package dev.octet.trainer.program;

import dev.octet.formats.tensor.Tensor;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An ordered list of steps, and the values they operate on.
 *
 * @param values all values, by id
 * @param steps by phase; within a phase in execution order
 * @param inputs values to feed, by the graph's names; a gradient of an output is named {@link #UPSTREAM} plus the output's name
 * @param outputs values readable after FORWARD, by the graph's names; the loss is named {@link #LOSS}
 * @param gradients gradient of each trained parameter, by parameter name
 * @param constants elements of each {@link ValueRole#CONSTANT} value, loaded with the program
 * @param stored elements of each {@link ValueRole#STORED} value; whoever made them keeps them as long as the program's memory
 * @param initialStates F32 elements of each {@link ValueRole#STATE} value before the first step; a single number fills the tensor
 */
public record Program(
        List<Value> values,
        List<Step> steps,
        Map<String, Value> inputs,
        Map<String, Value> outputs,
        Map<String, Value> gradients,
        Map<Value, Tensor> constants,
        Map<Value, Tensor> stored,
        Map<Value, List<Float>> initialStates) {
    /** Name of the loss among the outputs. */
    public static final String LOSS = "loss";
    /** Name of the state from which backward starts, the gradient of the loss itself: loss scale / number of micro-batches. */
    public static final String LOSS_GRADIENT = "loss_gradient";
    /** Name of the state that is 1 when a loss of the step was not finite; the caller of a step resets it to 0. */
    public static final String LOSS_NON_FINITE = "loss_non_finite";
    /** Prefix of inputs that are gradients of outputs. */
    public static final String UPSTREAM = "upstream.";

    public Program {
        values = List.copyOf(values);
        steps = List.copyOf(steps);
        inputs = ordered(inputs);
        outputs = ordered(outputs);
        gradients = ordered(gradients);
        constants = ordered(constants);
        stored = ordered(stored);
        initialStates = ordered(initialStates);
    }

    private static <K, V> Map<K, V> ordered(Map<K, V> map) {
        return Collections.unmodifiableMap(new LinkedHashMap<>(map));
    }

    /** This program with other values and steps; what it is fed, what is read from it and what lasts stay. */
    public Program with(List<Value> otherValues, List<Step> otherSteps) {
        return new Program(otherValues, otherSteps, inputs, outputs, gradients, constants, stored, initialStates);
    }

    /** Values that outlive a micro-batch, shared by name with programs for other shapes: parameters, states, gradients, prepared values. */
    public List<Value> lasting() {
        return values.stream().filter(v -> v.role().isShared()).toList();
    }

    /** Steps of one phase, in order. */
    public List<Step> steps(Phase phase) {
        return steps.stream().filter(s -> s.phase() == phase).toList();
    }

    /** The program as text; deterministic, the same on any machine. */
    public String text() {
        return new ProgramText(this).toString();
    }

    /** SHA-256 of {@link #text}, in hexadecimal. */
    public String digest() {
        return HexFormat.of().formatHex(sha256().digest(text().getBytes(StandardCharsets.UTF_8)));
    }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}
