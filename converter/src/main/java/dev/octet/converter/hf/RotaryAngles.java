package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Rotary position embeddings (Su et al. 2021, arXiv:2104.09864) as transformers computes them: the angle of pair i at position p is
 * {@code p * frequency[i]}, {@code frequency[i] = theta^(-2i/rotated)}, rescaled by {@code rope_type}. Pairs are elements i and
 * i + rotated/2 of a head, or neighbours. Source: transformers/modeling_rope_utils.py.
 */
final class RotaryAngles {
    static final double DEFAULT_THETA = 10_000;
    /** Of numbers that people write into configurations. */
    private static final int MAX_DIGITS = 7;
    /** What taking roots of F32 numbers loses at most here. */
    private static final double ROUNDING = 1e-3;
    /** Powers of torch and of Java differ by the last bits. */
    private static final int MAX_ULPS = 4;

    /** One for each pair. */
    private final float[] frequencies;
    /** Elements of a head that are rotated, the first ones. */
    private final int rotated;
    /** What cosines and sines are multiplied by. */
    private final float magnitude;

    private final Beyond beyond;

    /** How frequencies depend on the length of a text. */
    sealed interface Beyond {
        /** Not at all. */
        enum Same implements Beyond {
            INSTANCE
        }

        /** Texts of more than {@code limit} positions have others. */
        @SuppressWarnings("ArrayRecordComponent") // never compared
        record Others(int limit, float[] frequencies) implements Beyond {}

        /**
         * Texts of L more than {@code limit} positions have a base that is greater by g^(rotated / (rotated - 2)), g = factor L / limit -
         * (factor - 1).
         */
        record GrowingTheta(int limit, double factor) implements Beyond {
            /** What g is to the power of, for each pair, as a factor of its frequency. */
            private static float[] exponents(int rotated) {
                float[] e = new float[rotated / 2];
                for (int i = 0; i < e.length; i++) {
                    e[i] = -2f * i / (rotated - 2);
                }
                return e;
            }
        }
    }

    RotaryAngles(float[] frequencies, int rotated, float magnitude, Beyond beyond) {
        this.frequencies = frequencies;
        this.rotated = rotated;
        this.magnitude = magnitude;
        this.beyond = beyond;
    }

    /** The same for texts of any length, cosines and sines as they are. */
    static RotaryAngles fixed(float[] frequencies, int rotated) {
        return new RotaryAngles(frequencies, rotated, 1, Beyond.Same.INSTANCE);
    }

    /** Of a family whose base is {@link #DEFAULT_THETA} and whose heads turn whole. */
    static RotaryAngles of(HfConfig config, int size) {
        return of(config, size, Family.LLAMA);
    }

    /**
     * What a family's configurations leave out.
     *
     * @param theta base where none is given
     * @param share of a head that turns where none is given
     * @param longrope names that the family's files give that type
     */
    record Family(double theta, double share, Set<String> longrope) {
        static final Family LLAMA = new Family(DEFAULT_THETA, 1, Set.of());

        Family {
            longrope = Set.copyOf(longrope);
        }

        Family withTheta(double base) {
            return new Family(base, share, longrope);
        }
    }

    /**
     * From {@code rope_parameters}, or {@code rope_theta} and {@code rope_scaling} of files before transformers 5.
     *
     * @param size of a head
     * @throws dev.octet.formats.error.UnsupportedModelException for an unknown rope_type
     */
    static RotaryAngles of(HfConfig config, int size, Family family) {
        HfConfig inner = parameters(config);
        String text = inner.text("default", "rope_type", "type");
        RopeType type = family.longrope().contains(text) ? RopeType.LONGROPE : RopeType.of(text, config);
        double theta = inner.positive(config.positive(family.theta(), "rope_theta"), "rope_theta");
        double share =
                inner.positive(config.positive(family.share(), "partial_rotary_factor"), "partial_rotary_factor");
        int rotated = (int) (size * share);
        if (share > 1 || rotated < 2 || rotated % 2 != 0) {
            throw config.malformed(
                    "rotary embeddings rotate " + rotated + " of " + size + " elements of a head, not an even number");
        }
        return type.angles(new RopeType.Parameters(inner, config, theta, size, rotated));
    }

    /** {@code rope_parameters} or {@code rope_scaling}; nothing where there is neither. */
    static HfConfig parameters(HfConfig config) {
        ObjectNode rope = config.object("rope_parameters")
                .or(() -> config.object("rope_scaling"))
                .orElseGet(JsonNodeFactory.instance::objectNode);
        return new HfConfig(rope, config.where());
    }

    /**
     * The {@code rope_parameters} that give these frequencies; empty where no known type with round numbers does.
     *
     * @param size of a head
     */
    static Optional<ObjectNode> parameters(List<Float> given, int size) {
        if (given.size() < 2 || 2 * given.size() > size) {
            return Optional.empty();
        }
        float[] f = new float[given.size()];
        for (int i = 0; i < f.length; i++) {
            f[i] = given.get(i);
        }
        return plain(f).or(() -> linear(f))
                .or(() -> llama3(f))
                .map(found -> 2 * f.length == size ? found : found.put("partial_rotary_factor", 2.0 * f.length / size));
    }

    private static Optional<ObjectNode> plain(float[] f) {
        int n = f.length;
        double theta = Math.pow(f[n - 1], -(double) n / (n - 1));
        return round(theta)
                .filter(t -> same(frequencies(t, 2 * n), f))
                .map(t -> type("default").put("rope_theta", t))
                .findFirst();
    }

    private static Optional<ObjectNode> linear(float[] f) {
        if (f[0] == 1) {
            return Optional.empty();
        }
        double factor = round(1.0 / f[0]).findFirst().orElseThrow();
        float[] scaled = f.clone();
        for (int i = 0; i < scaled.length; i++) {
            scaled[i] *= (float) factor;
        }
        return plain(scaled).map(p -> p.put("rope_type", "linear").put("factor", factor));
    }

    /** Llama 3.1 and 3.2: all published models have these bounds and this length. */
    private static Optional<ObjectNode> llama3(float[] f) {
        int n = f.length;
        return round(Math.pow(f[1], -n))
                .flatMap(theta -> round(frequencies(theta, 2 * n)[n - 1] / (double) f[n - 1])
                        .map(factor -> type("llama3")
                                .put("rope_theta", theta)
                                .put("factor", factor)
                                .put("low_freq_factor", 1.0)
                                .put("high_freq_factor", 4.0)
                                .put("original_max_position_embeddings", 8192)))
                .filter(rope -> {
                    HfConfig config = new HfConfig(rope, "rope_parameters");
                    double theta = rope.get("rope_theta").doubleValue();
                    float[] made = frequencies(theta, 2 * n);
                    RopeType.llama3(made, new RopeType.Parameters(config, config, theta, 2 * n, 2 * n));
                    return same(made, f);
                })
                .findFirst();
    }

    private static ObjectNode type(String type) {
        return JsonNodeFactory.instance.objectNode().put("rope_type", type);
    }

    /** A number computed with errors, as people might have written it: with few digits first. */
    private static Stream<Double> round(double value) {
        return IntStream.rangeClosed(1, MAX_DIGITS)
                .mapToObj(digits ->
                        new BigDecimal(value).round(new MathContext(digits)).doubleValue())
                .distinct()
                .filter(v -> Math.abs(v - value) <= ROUNDING * Math.abs(value));
    }

    private static boolean same(float[] a, float[] b) {
        for (int i = 0; i < a.length; i++) {
            if (Math.abs(a[i] - b[i]) > MAX_ULPS * Math.ulp(b[i])) {
                return false;
            }
        }
        return true;
    }

    /** In F32 as torch: 1 / theta^(2i / rotated). */
    static float[] frequencies(double theta, int rotated) {
        float[] f = new float[rotated / 2];
        for (int i = 0; i < f.length; i++) {
            float exponent = (float) (2 * i) / rotated;
            f[i] = 1 / (float) Math.pow((float) theta, exponent);
        }
        return f;
    }

    /** Radians by which a position rotates each pair. */
    float[] frequencies() {
        return frequencies.clone();
    }

    /** Those of a text of {@code length} positions. */
    float[] frequencies(int length) {
        return switch (beyond) {
            case Beyond.Same _ -> frequencies();
            case Beyond.Others o -> length > o.limit() ? o.frequencies().clone() : frequencies();
            case Beyond.GrowingTheta g -> {
                float grown = (float) (g.factor() * Math.max(length, g.limit()) / g.limit() - (g.factor() - 1));
                float[] exponents = Beyond.GrowingTheta.exponents(rotated);
                float[] f = frequencies();
                for (int i = 0; i < f.length; i++) {
                    f[i] *= (float) Math.pow(grown, exponents[i]);
                }
                yield f;
            }
        };
    }

    /** What cosines and sines are multiplied by. */
    float magnitude() {
        return magnitude;
    }

    /**
     * The nodes that all layers share: tables of the sequence's positions and which row is whose.
     *
     * @param name of the module, different for each base
     * @param interleaved whether pairs are neighbours, not elements half a rotation apart
     */
    Tables tables(GraphDraft draft, Tokens tokens, String name, boolean interleaved) {
        String path = "/" + name;
        String column = draft.op(
                path + "/Unsqueeze", "Unsqueeze", List.of(tokens.positions(), draft.longs("axes_1", Shape.of(1), 1)));
        String positions = draft.op(path + "/Cast", "Cast", List.of(column), Attribute.of("to", DType.F32.onnxId()));
        String angles = draft.op(path + "/Mul", "Mul", List.of(positions, rates(draft, tokens, name)));
        return new Tables(
                scaled(draft, name, draft.op(path + "/Cos", "Cos", List.of(angles))),
                scaled(draft, name, draft.op(path + "/Sin", "Sin", List.of(angles))),
                tokens.rows(),
                rotated,
                interleaved);
    }

    /** Frequencies as a value, F32 [1, rotated / 2]. */
    private String rates(GraphDraft draft, Tokens tokens, String name) {
        Shape row = Shape.of(1, frequencies.length);
        String path = "/" + name;
        String plain = draft.floats(name + ".inv_freq", row, frequencies);
        return switch (beyond) {
            case Beyond.Same _ -> plain;
            case Beyond.Others o -> {
                if (draft.isCached()) {
                    draft.limitCache(o.limit());
                }
                String limit = draft.longs(name + ".limit", Shape.of(), o.limit());
                String isLong = draft.op(path + "/Greater", "Greater", List.of(tokens.length(), limit));
                String others = draft.floats(name + ".long_inv_freq", row, o.frequencies());
                yield draft.op(path + "/Where", "Where", List.of(isLong, others, plain));
            }
            case Beyond.GrowingTheta g -> {
                String length = draft.op(
                        path + "/Cast_length",
                        "Cast",
                        List.of(tokens.length()),
                        Attribute.of("to", DType.F32.onnxId()));
                String limit = draft.floats(name + ".limit", Shape.SCALAR, g.limit());
                String longer = draft.op(path + "/Max", "Max", List.of(length, limit));
                String slope = draft.floats(name + ".slope", Shape.SCALAR, (float) (g.factor() / g.limit()));
                String shift = draft.floats(name + ".shift", Shape.SCALAR, (float) (g.factor() - 1));
                String steep = draft.op(path + "/Mul_length", "Mul", List.of(longer, slope));
                String grown = draft.op(path + "/Sub", "Sub", List.of(steep, shift));
                String exponents = draft.floats(name + ".exponents", row, Beyond.GrowingTheta.exponents(rotated));
                String powers = draft.op(path + "/Pow", "Pow", List.of(grown, exponents));
                yield draft.op(path + "/Mul_base", "Mul", List.of(plain, powers));
            }
        };
    }

    private String scaled(GraphDraft draft, String name, String x) {
        return magnitude == 1
                ? x
                : draft.op(
                        "/" + name + "/Mul_magnitude",
                        "Mul",
                        List.of(x, draft.floats(name + ".attention_scaling", Shape.SCALAR, magnitude)));
    }

    /**
     * @param cos [sequence, rotated / 2]
     * @param sin [sequence, rotated / 2]
     * @param ids row of each token, I64 [batch, sequence]
     */
    record Tables(String cos, String sin, String ids, int rotated, boolean interleaved) {
        /** {@code x} [batch, sequence, heads·size] with all heads rotated. */
        String turn(GraphDraft draft, String path, String x, int heads) {
            return draft.op(
                    path,
                    "RotaryEmbedding",
                    List.of(x, cos, sin, ids),
                    Attribute.of("num_heads", heads),
                    Attribute.of("rotary_embedding_dim", rotated),
                    Attribute.of("interleaved", interleaved ? 1 : 0));
        }
    }
}
