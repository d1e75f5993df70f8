package dev.octet.converter.verify;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;

/** Values of tensors that are not quantised. */
final class PlainValueRules {
    /** Tensors that are not quantised and hold NaN or infinity. */
    static final CheckpointRule NOT_FINITE = Demand.error("value-not-finite", Consumer.OF_CHECKPOINTS)
            .text("No tensor holds NaN or infinity.")
            .fix("look at the training run; put back a sound checkpoint")
            .source("NVIDIA/Model-Optimizer#1397")
            .readingWeights()
            .onCheckpoints(PlainValueRules::notFinite);

    private static final int PIECE_BYTES = 1 << 20;

    private static final Set<DType> FLOATS = Set.of(DType.BF16, DType.F16, DType.F32);

    private static void notFinite(CheckpointSubject subject, Report report) throws IOException {
        VerifiedPart read = subject.read();
        for (StoredTensor tensor : floats(subject)) {
            long count = read == null
                    ? notFinite(subject, tensor)
                    : Objects.requireNonNull(read.notFinite().get(tensor.name()));
            if (count > 0) {
                report.add(
                        "a tensor holds NaN or infinity",
                        tensor.name(),
                        count + " of " + tensor.shape().elementCount());
            }
        }
    }

    /** Tensors of floats that are not quantised. */
    static List<StoredTensor> floats(CheckpointSubject subject) {
        Set<String> plain = subject.stored().plain().keySet();
        return subject.checkpoint().tensors().values().stream()
                .filter(t -> plain.contains(t.name()) && FLOATS.contains(t.dtype()))
                .toList();
    }

    /** How many elements of a tensor are NaN or infinite. */
    static long notFinite(CheckpointSubject subject, StoredTensor tensor) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return count(subject, tensor, arena.allocate(PIECE_BYTES, 64));
        }
    }

    private static long count(CheckpointSubject subject, StoredTensor tensor, MemorySegment buffer) throws IOException {
        long found = 0;
        long bytes = tensor.spec().byteSize();
        for (long from = 0; from < bytes; from += PIECE_BYTES) {
            MemorySegment piece = buffer.asSlice(0, Math.min(PIECE_BYTES, bytes - from));
            subject.checkpoint().read(tensor, from, piece);
            found += notFinite(tensor.dtype(), piece);
        }
        return found;
    }

    /** Elements whose exponent is all ones. */
    private static long notFinite(DType type, MemorySegment piece) {
        long found = 0;
        if (type == DType.F32) {
            for (long i = 0; i < piece.byteSize(); i += Integer.BYTES) {
                found += (piece.get(Tensor.I32_LE, i) & 0x7F800000) == 0x7F800000 ? 1 : 0;
            }
            return found;
        }
        int ones = type == DType.BF16 ? 0x7F80 : 0x7C00;
        for (long i = 0; i < piece.byteSize(); i += Short.BYTES) {
            found += (piece.get(Tensor.I16_LE, i) & ones) == ones ? 1 : 0;
        }
        return found;
    }

    /** Tensors that are not quantised and not those of the original. */
    static final CheckpointRule DIFFERS = Demand.error("value-differs", Consumer.OF_CHECKPOINTS)
            .text("A tensor that is not quantised holds the original's values: bit for bit in the same number"
                    + " type, each rounded once in another.")
            .fix("export again; where weights were changed on purpose, compare with the model after that change")
            .source("vllm-project/vime#133, amd/Quark#42")
            .readingWeights()
            .withOriginal()
            .onCheckpoints(PlainValueRules::differs);

    private static void differs(CheckpointSubject subject, Report report) throws IOException {
        OriginalDiff diff = subject.originalDiff();
        if (diff == null) {
            return;
        }
        Set<String> quantized = subject.stored().weights().keySet();
        for (TensorDiff pair : diff.pairs()) {
            if (!quantized.contains(pair.b())) {
                differs(pair, report);
            }
        }
        for (ModelDiff.Uncomparable tensor : diff.uncomparable()) {
            // other rules report another shape or a missing scale
            if (!quantized.contains(tensor.b())
                    && subject.stored().plain().containsKey(tensor.b())
                    && !tensor.reason().startsWith("shapes differ")) {
                report.add(
                        Severity.WARNING,
                        "a tensor cannot be compared with the original's",
                        tensor.b(),
                        tensor.reason());
            }
        }
    }

    private static void differs(TensorDiff pair, Report report) {
        boolean sameType = pair.schemeA().equals(pair.schemeB());
        Nearness n = pair.nearness();
        long changed = sameType ? pair.differing() + pair.zeroSigns() : n.off() + n.clipped();
        if (changed + pair.notFiniteApart() > 0) {
            report.add(
                    "a tensor that is not quantised differs from the original's",
                    pair.b(),
                    String.format(
                            Locale.ROOT,
                            "%d of %d elements, by up to %.3g",
                            changed + pair.notFiniteApart(),
                            pair.elements(),
                            pair.maxAbsError()));
        }
    }

    private PlainValueRules() {}
}
