package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Rotary position embeddings (Su et al. 2021, arXiv:2104.09864) as transformers computes them: the angle of pair i at position p is
 * {@code p * frequency[i]}, {@code frequency[i] = theta^(-2i/rotated)}, rescaled by {@code rope_type}. Pairs are elements i and
 * i + rotated/2 of a head. Source: transformers/modeling_rope_utils.py.
 */
final class RotaryAngles {
    static final double DEFAULT_THETA = 10_000;
    /** Of numbers that people write into configurations. */
    private static final int MAX_DIGITS = 7;
    /** What taking roots of F32 numbers loses at most here. */
    private static final double ROUNDING = 1e-3;
    /** Powers of torch and of Java differ by the last bits. */
    private static final int MAX_ULPS = 4;

    private static final String KNOWN = "default, linear, llama3, yarn";

    /** One for each pair. */
    private final float[] frequencies;
    /** Elements of a head that are rotated, the first ones. */
    private final int rotated;
    /** What cosines and sines are multiplied with. */
    private final float factor;

    private RotaryAngles(float[] frequencies, int rotated, float factor) {
        this.frequencies = frequencies;
        this.rotated = rotated;
        this.factor = factor;
    }

    /**
     * From {@code rope_parameters}, or {@code rope_theta} and {@code rope_scaling} of files before transformers 5.
     *
     * @param size of a head
     * @throws dev.octet.formats.error.UnsupportedModelException for an unknown rope_type
     */
    static RotaryAngles of(HfConfig config, int size) {
        ObjectNode rope = config.object("rope_parameters")
                .or(() -> config.object("rope_scaling"))
                .orElseGet(JsonNodeFactory.instance::objectNode);
        HfConfig inner = new HfConfig(rope, config.where());
        String type = inner.text("default", "rope_type", "type");
        double theta = inner.positive(config.positive(DEFAULT_THETA, "rope_theta"), "rope_theta");
        double share = inner.positive(config.positive(1, "partial_rotary_factor"), "partial_rotary_factor");
        int rotated = (int) (size * share);
        if (share > 1 || rotated < 2 || rotated % 2 != 0) {
            throw config.malformed(
                    "rotary embeddings rotate " + rotated + " of " + size + " elements of a head, not an even number");
        }
        float[] frequencies = frequencies(theta, rotated);
        float scale = 1;
        switch (type) {
            case "default" -> {}
            case "yarn" -> scale = YarnScaling.of(inner, config).apply(frequencies, theta);
            case "linear" -> divide(frequencies, inner.positive(inner.json().path("factor"), "rope_scaling.factor"));
            case "llama3" -> llama3(frequencies, inner, config);
            default -> throw config.unsupported("rope_type", type, KNOWN);
        }
        return new RotaryAngles(frequencies, rotated, scale);
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
                    float[] made = frequencies(rope.get("rope_theta").doubleValue(), 2 * n);
                    llama3(made, config, config);
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

    private static void divide(float[] frequencies, double factor) {
        for (int i = 0; i < frequencies.length; i++) {
            frequencies[i] /= (float) factor;
        }
    }

    /** Long waves are stretched, short ones stay, those between are blended. */
    private static void llama3(float[] frequencies, HfConfig rope, HfConfig config) {
        double factor = rope.positive(rope.json().path("factor"), "factor");
        double low = rope.positive(rope.json().path("low_freq_factor"), "low_freq_factor");
        double high = rope.positive(rope.json().path("high_freq_factor"), "high_freq_factor");
        JsonNode original = rope.json().path("original_max_position_embeddings");
        double length = original.isNumber()
                ? rope.positive(original, "original_max_position_embeddings")
                : config.size("original_max_position_embeddings", "max_position_embeddings");
        if (high <= low) {
            throw config.malformed("high_freq_factor " + high + " is not above low_freq_factor " + low);
        }
        for (int i = 0; i < frequencies.length; i++) {
            float f = frequencies[i];
            float wave = (float) (2 * Math.PI) / f;
            if (wave > length / low) {
                frequencies[i] = f / (float) factor;
            } else if (wave >= length / high) {
                float smooth = ((float) length / wave - (float) low) / (float) (high - low);
                float stretched = f / (float) factor;
                frequencies[i] = (1 - smooth) * stretched + smooth * f;
            }
        }
    }

    /** Radians by which a position rotates each pair. */
    float[] frequencies() {
        return frequencies.clone();
    }

    /** The nodes that all layers share: tables of the sequence's positions and which row is whose. */
    Tables tables(GraphDraft draft, Tokens tokens) {
        String path = "/rotary_emb";
        String column = draft.op(
                path + "/Unsqueeze", "Unsqueeze", List.of(tokens.positions(), draft.longs("axes_1", Shape.of(1), 1)));
        String positions = draft.op(path + "/Cast", "Cast", List.of(column), Attribute.of("to", DType.F32.onnxId()));
        String rates = draft.floats("rotary_emb.inv_freq", Shape.of(1, frequencies.length), frequencies);
        String angles = draft.op(path + "/Mul", "Mul", List.of(positions, rates));
        return new Tables(
                scaled(draft, path + "/Cos", draft.op(path + "/Cos", "Cos", List.of(angles))),
                scaled(draft, path + "/Sin", draft.op(path + "/Sin", "Sin", List.of(angles))),
                tokens.positionIds(),
                rotated);
    }

    private String scaled(GraphDraft draft, String path, String values) {
        return factor == 1
                ? values
                : draft.op(
                        path + "/Mul",
                        "Mul",
                        List.of(values, draft.floats("rotary_emb.attention_factor", Shape.SCALAR, factor)));
    }

    /**
     * @param cos [sequence, rotated / 2]
     * @param sin [sequence, rotated / 2]
     * @param ids row of each token, I64 [batch, sequence]
     */
    record Tables(String cos, String sin, String ids, int rotated) {
        /** {@code x} [batch, sequence, heads·size] with all heads rotated. */
        String turn(GraphDraft draft, String path, String x, int heads) {
            return turn(draft, path, x, heads, false);
        }

        /**
         * {@code x} with all heads rotated.
         *
         * @param interleaved whether pairs are neighbours
         */
        String turn(GraphDraft draft, String path, String x, int heads, boolean interleaved) {
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
