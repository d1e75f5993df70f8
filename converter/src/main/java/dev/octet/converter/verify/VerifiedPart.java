package dev.octet.converter.verify;

import dev.octet.converter.verify.WeightFacts.Comparison;
import dev.octet.quant.layout.StoredWeight;
import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** What one of several processes read of the weights of a checkpoint; {@link Verifier#joined} judges all of it. */
public final class VerifiedPart implements Serializable {
    private static final long serialVersionUID = 1;

    private final HashMap<String, Read> quantized = new HashMap<>();
    private final HashMap<String, Long> notFinite = new HashMap<>();

    VerifiedPart() {}

    /** {@link WeightFacts} without the weight itself. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Read(
            long[] histogram,
            long blocks,
            long zeroBlocks,
            double squares,
            @Nullable Comparison comparison) implements Serializable {
        WeightFacts of(StoredWeight weight, boolean explain) {
            return new WeightFacts(
                    weight,
                    new WeightFacts.Histogram(histogram),
                    blocks,
                    zeroBlocks,
                    squares,
                    explain ? comparison : null);
        }
    }

    synchronized void add(WeightFacts facts) {
        quantized.put(
                facts.weight().name(),
                new Read(
                        facts.histogram().counts(),
                        facts.blocks(),
                        facts.zeroBlocks(),
                        facts.squares(),
                        facts.comparison()));
    }

    synchronized void add(String plain, long elementsNotFinite) {
        notFinite.put(plain, elementsNotFinite);
    }

    /** How many tensors were read. */
    public int count() {
        return quantized.size() + notFinite.size();
    }

    /** All parts in one. */
    static VerifiedPart all(List<VerifiedPart> parts) {
        VerifiedPart all = new VerifiedPart();
        parts.forEach(p -> {
            all.quantized.putAll(p.quantized);
            all.notFinite.putAll(p.notFinite);
        });
        return all;
    }

    /**
     * What a walk over a weight found; null for a weight that cannot be walked over.
     *
     * @param explain whether it is compared with the original
     */
    @Nullable
    WeightFacts facts(StoredWeight weight, boolean explain) {
        Read read = quantized.get(weight.name());
        return read == null ? null : read.of(weight, explain);
    }

    /** Elements of a plain tensor that are NaN or infinite, by name. */
    Map<String, Long> notFinite() {
        return notFinite;
    }
}
