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
 * Steps in order, and the values they work on.
 *
 * @param values all, by id
 * @param steps in order of phases; within a phase in the order in which they run
 * @param inputs what is fed, by the graph's names; gradients of outputs that are fed are called {@link #UPSTREAM} and the output's name
 * @param outputs what can be read after FORWARD, by the graph's names; the loss is called {@link #LOSS}
 * @param gradients gradient of each trained parameter, by the parameter's name
 * @param constants the elements of each {@link ValueRole#CONSTANT} value; an executable has them from the start
 * @param initialStates F32 elements of each {@link ValueRole#STATE} value before the first step; one number fills all
 */
public record Program(
        List<Value> values,
        List<Step> steps,
        Map<String, Value> inputs,
        Map<String, Value> outputs,
        Map<String, Value> gradients,
        Map<Value, Tensor> constants,
        Map<Value, List<Float>> initialStates) {
    /** Name of the loss among the outputs. */
    public static final String LOSS = "loss";
    /** Name of the state that holds the gradient of the loss with respect to itself: loss scale / number of micro-batches. */
    public static final String LOSS_GRADIENT = "loss_gradient";
    /** Name of the state that is 1 when a loss of the step was not finite; whoever begins a step sets it to 0. */
    public static final String LOSS_NON_FINITE = "loss_non_finite";
    /** Begins the name of an input that is the gradient of an output. */
    public static final String UPSTREAM = "upstream.";

    public Program {
        values = List.copyOf(values);
        steps = List.copyOf(steps);
        inputs = ordered(inputs);
        outputs = ordered(outputs);
        gradients = ordered(gradients);
        constants = ordered(constants);
        initialStates = ordered(initialStates);
    }

    private static <K, V> Map<K, V> ordered(Map<K, V> map) {
        return Collections.unmodifiableMap(new LinkedHashMap<>(map));
    }

    /** Values that outlive a micro-batch and that programs of other shapes share by name: parameters, states, gradients, prepared ones. */
    public List<Value> lasting() {
        return values.stream().filter(v -> v.role().isShared()).toList();
    }

    /** Steps of one phase, in order. */
    public List<Step> steps(Phase phase) {
        return steps.stream().filter(s -> s.phase() == phase).toList();
    }

    /** The program as text: the same program gives the same text, on any machine. */
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
