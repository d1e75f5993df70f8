package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.random.RandomGenerator;

/**
 * Where the parameters of an adapter start: at those of an adapter that is continued, else by the law of each. The numbers of a parameter follow from the seed and its key
 * alone, so that other targets do not change them.
 */
public final class InitialValues {
    private final long seed;
    private final Map<String, Tensor> continued;
    private final String where;

    /** A law of initial values. */
    @FunctionalInterface
    public interface Law {
        /** All elements, row by row. */
        float[] elements(Shape shape, RandomGenerator random);
    }

    /** All zero. */
    public static final Law ZEROS = (shape, _) -> new float[Math.toIntExact(shape.elementCount())];

    /** All one. */
    public static final Law ONES = (shape, _) -> {
        float[] ones = new float[Math.toIntExact(shape.elementCount())];
        Arrays.fill(ones, 1);
        return ones;
    };

    private InitialValues(long seed, Map<String, Tensor> continued, String where) {
        this.seed = seed;
        this.continued = new TreeMap<>(continued);
        this.where = where;
    }

    /** Of a new adapter. */
    public static InitialValues seeded(long seed) {
        return new InitialValues(seed, Map.of(), "");
    }

    /**
     * Of an adapter that is continued.
     *
     * @param tensors by PEFT's keys, any float type
     * @param where for messages: its folder
     */
    public static InitialValues continuing(Map<String, Tensor> tensors, String where) {
        return new InitialValues(0, tensors, where);
    }

    /** Uniform in ±1/sqrt(columns): torch's {@code kaiming_uniform_(a=sqrt(5))}. */
    public static Law kaimingUniform() {
        return (shape, random) -> fanIn(shape.dim(-1)).elements(shape, random);
    }

    /** Uniform in ±bound. */
    public static Law uniform(double bound) {
        return (shape, random) -> {
            float[] elements = new float[Math.toIntExact(shape.elementCount())];
            for (int i = 0; i < elements.length; i++) {
                elements[i] = (float) ((2 * random.nextDouble() - 1) * bound);
            }
            return elements;
        };
    }

    /** Uniform in ±1/sqrt({@code fanIn}): biases of torch's Linears, and all weights of its LSTMs. */
    public static Law fanIn(long fanIn) {
        return uniform(1 / Math.sqrt((double) fanIn));
    }

    /** Normal with mean 0. */
    public static Law normal(double deviation) {
        return (shape, random) -> {
            float[] elements = new float[Math.toIntExact(shape.elementCount())];
            for (int i = 0; i < elements.length; i++) {
                elements[i] = (float) (random.nextGaussian() * deviation);
            }
            return elements;
        };
    }

    /**
     * Initial elements of a parameter, F32.
     *
     * @throws InvalidDataException when the continued adapter does not have it, or has it in another shape
     */
    Tensor of(String key, Shape shape, Law law) {
        if (where.isEmpty()) {
            return Tensor.ofFloats(Arena.ofAuto(), key, shape, law.elements(shape, random(key)));
        }
        Tensor found = continued.get(key);
        if (found == null || !found.shape().equals(shape) || !found.dtype().isFloat()) {
            throw new InvalidDataException(
                    found == null
                            ? "the adapter has no '" + key + "'"
                            : "the adapter has '" + key + "' as " + found.dtype() + " " + found.shape()
                                    + ", this model and configuration need " + shape,
                    where,
                    "continue it with the model and the adapter: settings that it was trained with");
        }
        Tensor master = Parameters.master(new Parameter(key, found, Parameter.Use.WEIGHT), Arena.ofAuto());
        return new Tensor(new TensorSpec(key, DType.F32, shape), master.bytes());
    }

    /** Whether an adapter is continued that has this key. */
    boolean has(String key) {
        return continued.containsKey(key);
    }

    /** Numbers for a key. */
    RandomGenerator random(String key) {
        return new SplittableRandom(mixed(seed, key));
    }

    /** A seed for one of many names. */
    static long mixed(long seed, String name) {
        return seed * 0x9E3779B97F4A7C15L + name.hashCode();
    }

    /** Whether they are those of an adapter that is continued. */
    boolean isContinued() {
        return !where.isEmpty();
    }
}
